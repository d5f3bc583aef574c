"""Events from files of JSON lines: one payload a line, or one CloudEvent a line.

A payload does not say its type; its fields do. Of the types whose required fields a line has, the
one with the most is meant. A CloudEvent in structured mode (``{"type": …, "data": {…}}``) says it.
Barriers among the lines end the steps of what lies before them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final

from pydantic_core import to_json

from walras.billing_log.errors import BillingLogError
from walras.instance_arguments import BadInputError, read_bytes
from walras_contracts.event import Event
from walras_contracts.registry import (
    EVENTS,
    UndecodableError,
    UnknownVersionError,
    decode_inner,
    family_of,
)
from walras_contracts.strict_json import StrictJsonError, parse
from walras_runtime.records import Barrier

BARRIER_FIELDS: Final = frozenset({"barrier", "market_time_ms"})
"""Of the payload of a barrier."""
STANDARD_INPUT: Final = "-"
Told = Callable[[int, int], None]


@cache
def _required() -> tuple[tuple[frozenset[str], type[Event]], ...]:
    return tuple(
        (frozenset(n for n, f in model.model_fields.items() if f.is_required()), model)
        for model in EVENTS
    )


def model_by_fields(names: Collection[str]) -> type[Event] | None:
    """Return the event type that a payload with these fields is of; None: none fits.

    Raises
    ------
    BillingLogError
        Two types fit equally well.
    """
    fitting = [(len(fields), model) for fields, model in _required() if fields <= set(names)]
    if not fitting:
        return None
    most = max(count for count, _ in fitting)
    found = [model for count, model in fitting if count == most]
    if len(found) > 1:
        names_of = " or ".join(model.TYPE for model in found)
        raise BillingLogError(f'may be {names_of}: write it as {{"type": …, "data": …}}')
    return found[0]


def events_of_file(name: str, wanted: frozenset[str], told: Told) -> Iterator[Event | Barrier]:
    """Yield the events of a file whose types are wanted, and barriers, in its order.

    Parameters
    ----------
    name
        The file; ``-`` is standard input.
    wanted
        Event types.
    told
        Told how many lines were read, of how many.

    Raises
    ------
    BillingLogError
        The file cannot be read, or a line is no event; the text names file, line and JSON path.
    """
    data = _standard_input() if name == STANDARD_INPUT else _data(name)
    shown = "standard input" if name == STANDARD_INPUT else name
    lines = data.split(b"\n")
    for number, text in enumerate(lines, start=1):
        if text.strip():
            try:
                event = _event(text, wanted)
            except (BillingLogError, UndecodableError, UnknownVersionError) as error:
                raise BillingLogError(f"{shown}: line {number}: {error}") from error
            if event is not None:
                yield event
        told(number, len(lines))


def _data(name: str) -> bytes:
    try:
        return read_bytes("events", name)
    except BadInputError as error:
        raise BillingLogError(str(error)) from error


@cache
def _standard_input() -> bytes:
    """Read it once: a command may ask for one kind of events after the other."""
    return _data(STANDARD_INPUT)


def _event(text: bytes, wanted: frozenset[str]) -> Event | Barrier | None:
    try:
        document = parse(text)
    except StrictJsonError as error:
        raise BillingLogError(f"{error.path or '$'}: {error.reason}") from error
    if not isinstance(document, dict):
        raise BillingLogError("$: must be an object")
    if document.keys() == BARRIER_FIELDS:
        return _barrier(document)
    kind, payload = _typed(document)
    if kind not in wanted and not any(family_of(kind) == family_of(each) for each in wanted):
        return None
    return decode_inner(kind, to_json(payload), wanted)


def _barrier(document: Mapping[str, Any]) -> Barrier:
    number, time_ms = document["barrier"], document["market_time_ms"]
    if type(number) is not int or type(time_ms) is not int:
        raise BillingLogError("$: a barrier has a whole number and a whole market time")
    return Barrier(number, time_ms)


def _typed(document: Mapping[str, Any]) -> tuple[str, Any]:
    if isinstance(document.get("type"), str) and "data" in document:
        return document["type"], document["data"]
    model = model_by_fields(document)
    if model is None:
        raise BillingLogError("$: has the fields of no event")
    return model.TYPE, document
