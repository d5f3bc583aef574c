"""One Parquet file: the events of one market on one day, in the order of their places.

A run merges what it read into what is there. The new file is written beside the old one and takes
its name at the end, so that a reader sees the one or the other; a run that adds nothing writes
nothing.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from walras.archive.columns import PLACED, SCHEMA, events_of, table_of
from walras.archive.recorded_cycle import ArchiveError, Place, RecordedEvent, place_of
from walras_contracts.market import FrameKind

SUFFIX: Final = ".parquet"
UNFINISHED_SUFFIX: Final = ".parquet.unfinished"
GROUP_BYTES: Final = 16 * 2**20
"""Size in memory from which rows are written as one group: what a reader must hold at once."""
BATCH_EVENTS: Final = 64
"""Events that are kept as Python objects before they become columns."""


def read_events(path: Path) -> Iterator[RecordedEvent]:
    """Yield the events of a file in order, a group of rows at a time.

    Raises
    ------
    ArchiveError
        The file is not one of an archive.
    """
    with _opened(path) as file:
        for number in range(file.num_row_groups):
            with _readable(path):
                table = file.read_row_group(number)
            yield from events_of(table, str(path))


def row_count(path: Path) -> int:
    """Return how many events a file holds, without reading them."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def key_cycles(path: Path) -> list[int]:
    """Return the cycles of a file that have a key frame."""
    with _opened(path) as file, _readable(path):
        columns = file.read(columns=["cycle", "record.frame"]).flatten().to_pydict()
    cycles, kinds = columns["cycle"], columns["record.frame"]
    return [cycle for cycle, kind in zip(cycles, kinds, strict=True) if kind == FrameKind.KEY]


def cycle_span(path: Path) -> range:
    """Return the cycles from the first to the last one of a file."""
    with _opened(path) as file, _readable(path):
        cycles = file.read(columns=["cycle"])["cycle"].to_pylist()
    return range(cycles[0], cycles[-1] + 1) if cycles else range(0)


def _opened(path: Path) -> Any:
    with _readable(path):
        file = pq.ParquetFile(path, page_checksum_verification=True)
    held = file.schema_arrow
    for column in SCHEMA:
        index = held.get_field_index(column.name)
        if index < 0:
            fault = f"it has no column {column.name}"
        elif column.name in PLACED and held.field(index).type != column.type:
            fault = f"its column {column.name} is of {held.field(index).type}"
        else:
            continue
        file.close()
        raise ArchiveError(f"{path}: not an archive of cycles, {fault}")
    return file


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Name the file where reading it fails: a damaged one fails in many ways."""
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ArchiveError(f"{path}: {error}") from error


class DayFile:
    """Merges events, given in the order of their places, into the file of a day.

    ``added`` counts the events that were new, ``known`` those that were there already.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.added = 0
        self.known = 0
        self._old: Any = None
        self._group: tuple[int, Any] = (-1, None)
        self._places: list[Place] = []
        self._next_old = 0
        self._last: Place | None = None
        self._events: list[RecordedEvent] = []
        self._tables: list[Any] = []
        self._writer: Any = None
        if path.exists():
            self._old = _opened(path)
            with _readable(path):
                held = self._old.read(columns=["cycle", "part"])
            cycles, parts = held["cycle"].to_pylist(), held["part"].to_pylist()
            self._places = list(zip(cycles, parts, strict=True))

    def add(self, events: Sequence[RecordedEvent]) -> None:
        """Add events behind those added before.

        Raises
        ------
        ArchiveError
            The file holds another event at the same place: it was made from another log. Or an
            event is not behind the one before it.
        """
        for event in events:
            place = place_of(event)
            if self._last is not None and place <= self._last:
                raise ArchiveError(
                    f"market {event.market}, cycle {event.cycle}: it comes behind a later one"
                )
            self._last = place
            index = bisect_left(self._places, place)
            if index < len(self._places) and self._places[index] == place:
                self._compare(index, event)
                self.known += 1
                continue
            self._copy_old(index)
            self._events.append(event)
            self.added += 1
            if len(self._events) >= BATCH_EVENTS:
                self._keep_events()

    def close(self) -> None:
        """Write what is left, and let the new file take the place of the old one."""
        if self.added:
            self._copy_old(len(self._places))
            self._keep_events()
            self._write(least_bytes=0)
            self._writer.close()
            self._writer = None
            _flush(self._unfinished())
            self._unfinished().replace(self.path)
            _flush(self.path.parent)
        self.abandon()

    def abandon(self) -> None:
        """Leave the file as it was; does nothing after `close`."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._unfinished().unlink(missing_ok=True)
        if self._old is not None:
            self._old.close()
            self._old = None

    def _unfinished(self) -> Path:
        return self.path.with_suffix(UNFINISHED_SUFFIX)

    def _compare(self, index: int, event: RecordedEvent) -> None:
        (row,) = self._old_rows(index, index + 1)
        (held,) = events_of(row, str(self.path))
        if held != event:
            raise ArchiveError(
                f"{self.path}: holds another {event.TYPE} of market {event.market}, cycle "
                f"{event.cycle}: an archive is of one log; choose another directory"
            )

    def _copy_old(self, until: int) -> None:
        if self._next_old >= until:
            return
        self._keep_events()
        for rows in self._old_rows(self._next_old, until):
            if rows.schema == SCHEMA:
                self._tables.append(rows)
            else:
                # Written by an earlier build, before an event gained a field.
                self._tables.append(table_of(events_of(rows, str(self.path))))
            self._write(least_bytes=GROUP_BYTES)
        self._next_old = until

    def _old_rows(self, begin: int, end: int) -> Iterator[Any]:
        first = 0
        for number in range(self._old.num_row_groups):
            size = self._old.metadata.row_group(number).num_rows
            low, high = max(begin - first, 0), min(end - first, size)
            if low < high:
                if self._group[0] != number:
                    with _readable(self.path):
                        self._group = number, self._old.read_row_group(number)
                yield self._group[1].slice(low, high - low)
            first += size

    def _keep_events(self) -> None:
        if self._events:
            self._tables.append(table_of(self._events))
            self._events.clear()
            self._write(least_bytes=GROUP_BYTES)

    def _write(self, *, least_bytes: int) -> None:
        if not self._tables or sum(table.nbytes for table in self._tables) < least_bytes:
            return
        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(
                self._unfinished(), SCHEMA, compression="zstd", write_page_checksum=True
            )
        self._writer.write_table(pa.concat_tables(self._tables).combine_chunks())
        self._tables.clear()


def _flush(path: Path) -> None:
    """Make a file, or the names in a directory, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
