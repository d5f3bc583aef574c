"""Recorded events as rows of Arrow tables and back: every field is a column, none is a blob.

A row has the event's type, market, cycle, part (-1 for the record itself) and market time; the
other fields are those of the struct ``record`` or ``frame``. The Arrow types follow the models, so
that a field which an event gains is archived without a change here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import pyarrow as pa
from pydantic import BaseModel
from pydantic_core import to_json

from walras.archive.recorded_cycle import ArchiveError, RecordedEvent, place_of
from walras_contracts.market import CycleFramed, CycleRecorded
from walras_contracts.registry import UndecodableError, UnknownVersionError, decode_inner

COLUMN_OF: Final[dict[str, str]] = {CycleRecorded.TYPE: "record", CycleFramed.TYPE: "frame"}
"""Struct column that holds the fields of an event type."""
PLACED: Final = ("market", "cycle", "part", "market_time_ms")
"""Fields with a column of their own, outside of the structs."""


def arrow_type(annotation: Any) -> Any:
    """Return the Arrow type of a field of a contract: integers, text, parts, arrays of them.

    Raises
    ------
    TypeError
        The contracts gained a kind of value that an archive does not know.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        # "element" is the name that Parquet gives back.
        return pa.list_(pa.field("element", arrow_type(arguments[0])))
    if origin is Literal:
        return arrow_type(type(arguments[0]))
    if origin is not None:
        inner = arguments[:1] if origin is Annotated else arguments
        (annotation,) = [each for each in inner if each is not NoneType]
        return arrow_type(annotation)
    if annotation is int:
        return pa.int64()
    if isinstance(annotation, type) and issubclass(annotation, str):
        return pa.string()
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _struct(annotation)
    raise TypeError(f"no column holds a value of {annotation!r}")


def _struct(model: type[BaseModel], without: Sequence[str] = ()) -> Any:
    fields = model.model_fields.items()
    return pa.struct([(k, arrow_type(v.annotation)) for k, v in fields if k not in without])


SCHEMA: Final = pa.schema(
    [
        pa.field("type", pa.string(), nullable=False),
        pa.field("market", pa.string(), nullable=False),
        pa.field("cycle", pa.int64(), nullable=False),
        pa.field("part", pa.int64(), nullable=False),
        pa.field("market_time_ms", pa.int64(), nullable=False),
        pa.field("record", _struct(CycleRecorded, PLACED)),
        pa.field("frame", _struct(CycleFramed, PLACED)),
    ]
)


def table_of(events: Iterable[RecordedEvent]) -> Any:
    """Return the events as a table, one row each."""
    return pa.Table.from_pylist([_row(event) for event in events], schema=SCHEMA)


def _row(event: RecordedEvent) -> dict[str, Any]:
    fields = event.model_dump(mode="json")
    cycle, part = place_of(event)
    return {
        "type": event.TYPE,
        "market": event.market,
        "cycle": cycle,
        "part": part,
        "market_time_ms": event.market_time_ms,
        COLUMN_OF[event.TYPE]: fields,
    }


def events_of(table: Any, source: str) -> Iterator[RecordedEvent]:
    """Read the rows of a table back into the events that they were.

    Parameters
    ----------
    table
        With the columns of `SCHEMA`; a field that an older archive lacks takes its default.
    source
        Named in errors, such as a file.

    Raises
    ------
    ArchiveError
        A row is not an event of the contract.
    """
    try:
        rows = table.to_pylist()
    except (ValueError, pa.ArrowException) as error:
        raise ArchiveError(f"{source}: {error}") from error
    for row in rows:
        yield _event(row, source)


def _event(row: Mapping[str, Any], source: str) -> RecordedEvent:
    where = f"{source}: market {row['market']}, cycle {row['cycle']}, part {row['part']}"
    fields = row.get(COLUMN_OF.get(row["type"], ""))
    if not isinstance(fields, dict):
        raise ArchiveError(f"{where}: a row of type {row['type']} has no such fields")
    # The record itself has no part, and would refuse nothing that it does not know.
    document = {**fields, **{name: row[name] for name in PLACED}}
    try:
        event = decode_inner(row["type"], to_json(document), COLUMN_OF)
    except (UndecodableError, UnknownVersionError) as error:
        raise ArchiveError(f"{where}: {error}") from error
    assert isinstance(event, CycleRecorded | CycleFramed)
    return event


def named_columns(batches: Iterable[Mapping[str, Sequence[Any]]]) -> Any:
    """Return batches of plain columns as one table; for summaries in SQL."""
    tables = [pa.table(dict(columns)) for columns in batches]
    # A column without a single value in a batch takes its type from the others.
    return pa.concat_tables(tables, promote_options="permissive")
