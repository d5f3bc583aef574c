"""Header names that are not UTF-8 are read with replacement, everything else as the client does."""

import struct
from typing import Any, Self

import pytest
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as PythonBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from walras_runtime.kafka.tolerant_records import TolerantRecords

NONE, GZIP = 0, 1
Headers = list[tuple[bytes, bytes | None]]


class Name(str):
    """A header name that goes onto the wire as given."""

    def __new__(cls, raw: bytes) -> Self:
        made = super().__new__(cls, raw.decode("utf-8", "replace"))
        made.raw = raw
        return made

    raw: bytes

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        del encoding, errors
        return self.raw


def batch(first: int, records: list[Headers], codec: int) -> bytes:
    builder = PythonBuilder(2, codec, 0, -1, -1, -1, 1_000_000)
    for index, headers in enumerate(records):
        named = [(Name(name), value) for name, value in headers]
        builder.append(index, 1_000 + index, b"k%d" % index, b"v%d" % index, named)
    made = builder.build()
    struct.pack_into(">q", made, 0, first)  # the broker gives the offsets; no checksum covers them
    return bytes(made)


def read(records: Any) -> list[tuple[Any, ...]]:
    found = []
    while records.has_next():
        held = records.next_batch()
        assert held.validate_crc()
        found += [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in held]
        assert held.next_offset == found[-1][0] + 1
    assert records.next_batch() is None
    return found


text = st.text(max_size=6).map(str.encode)
headers = st.lists(st.tuples(text | st.binary(max_size=6), st.none() | st.binary(max_size=6)))
batches = st.lists(st.lists(headers, min_size=1, max_size=5), min_size=1, max_size=4)


@pytest.mark.parametrize("codec", [NONE, GZIP])
@given(held=batches)
def test_every_record_is_read_once_and_names_are_replaced_where_they_are_not_text(
    codec: int, held: list[list[Headers]]
) -> None:
    parts, wanted, first = [], [], 0
    for records in held:
        parts.append(batch(first, records, codec))
        for index, each in enumerate(records):
            names = [(name.decode("utf-8", "replace"), value) for name, value in each]
            wanted.append((first + index, 1_000 + index, b"k%d" % index, b"v%d" % index, names))
        first += len(records)
    assert read(TolerantRecords(b"".join(parts))) == wanted


def test_the_client_alone_does_not_get_past_such_a_name() -> None:
    """Canary: where this passes no more, the replacement has nothing left to do."""
    with pytest.raises(UnicodeDecodeError):
        read(MemoryRecords(batch(0, [[(b"\xff", b"")]], NONE)))
