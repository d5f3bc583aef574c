"""Records whose header names are not text are read like all others.

The client decodes the names of headers as UTF-8 and raises where they are not: at every attempt to
read on, so that one such record, which anybody who may write to an outside topic can write, would
stop all of its readers for ever. Here what is not UTF-8 in a name becomes U+FFFD, and whatever
reads the record finds that it has not the headers that an event needs.

The client has no place to plug this in, so its fetcher is given another parser of record sets. It
is the client's own one until a batch cannot be read; only that batch is then read again by the
client's parser in Python, from bytes that decode with replacement.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final, SupportsIndex, overload

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

BATCH_HEAD: Final = struct.Struct(">qi")
"""A batch begins with its first offset and the number of bytes that follow."""


class _Lenient(bytearray):
    """Bytes whose parts decode whatever they hold."""

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> "_Lenient": ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> "int | _Lenient":
        found = super().__getitem__(index)
        return found if isinstance(found, int) else _Lenient(found)

    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, errors)


class _TolerantBatch:
    """A batch as the fetcher uses it."""

    def __init__(self, batch: Any, record_set: bytes) -> None:
        self._batch = batch
        self._record_set = record_set

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        last = -1
        try:
            for record in self._batch:
                last = record.offset
                yield record
            return
        except UnicodeDecodeError:
            pass
        yield from (record for record in self._read_again() if record.offset > last)

    def _read_again(self) -> Iterator[Any]:
        at = 0
        while True:
            first, length = BATCH_HEAD.unpack_from(self._record_set, at)
            end = at + BATCH_HEAD.size + length
            if first == self._batch.base_offset:
                break
            at = end
        batch = _DefaultRecordBatchPy(self._record_set[at:end])
        records: Iterator[Any] = iter(batch)  # unpacks a compressed batch
        batch._buffer = _Lenient(batch._buffer)  # noqa: SLF001 - there is no other way in
        return records


class TolerantRecords:
    """A set of batches as the fetcher uses it."""

    def __init__(self, record_set: bytes) -> None:
        self._record_set = record_set
        self._records = MemoryRecords(record_set)

    def has_next(self) -> bool:
        """Whether another batch follows."""
        return bool(self._records.has_next())

    def next_batch(self) -> Any:
        """Return the next batch."""
        batch = self._records.next_batch()
        return None if batch is None else _TolerantBatch(batch, self._record_set)

    def size_in_bytes(self) -> int:
        """Return the size of the set."""
        return int(self._records.size_in_bytes())


def install() -> None:
    """Let every consumer of this process read with it."""
    fetcher.MemoryRecords = TolerantRecords
