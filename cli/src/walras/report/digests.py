"""Digests of what was decided: equal digests mean equal decisions, record by record."""

import hashlib
import re
from typing import Any

from walras.report.records import LogRecord
from walras_contracts.market import CycleRecorded

DECIDED_TOPICS = ("prices", "quotas", "cycles")
DEFINITION = (
    "SHA-256 over the topic's partitions in ascending order (those that hold records): partition "
    "number, record count and SHA-256 of the partition. A partition's SHA-256 covers, in offset "
    "order, each record's key, type and payload, each preceded by its length in bytes (8 bytes, "
    "big-endian; a tombstone's payload has the length 2^64 - 1). Barriers, offsets, headers and "
    "timestamps are left out, and so are `frame` and `frames` of a cycle record: they depend on "
    "what its writer remembered, a process that has just started frames a whole market."
)
_FRAME = re.compile(rb'"frame":"[a-z]+","frames":[0-9]+,')
"""Those two members, which the model writes side by side."""
_TOMBSTONE = b"\xff" * 8


def without_frame(head: bytes) -> bytes:
    """Return a cycle record's payload without what depends on its writer's memory."""
    return _FRAME.sub(b"", head)


class TopicDigest:
    """Running digest of one topic; partitions may come interleaved."""

    def __init__(self) -> None:
        self._partitions: dict[int, tuple[Any, int]] = {}

    def add(self, record: LogRecord) -> None:
        """Take a record that is not a barrier."""
        digest, count = self._partitions.get(record.partition) or (hashlib.sha256(), 0)
        key, kind = record.key.encode(), record.type.encode()
        digest.update(len(key).to_bytes(8, "big") + key)
        digest.update(len(kind).to_bytes(8, "big") + kind)
        if record.value is None:
            digest.update(_TOMBSTONE)
        else:
            value = record.value
            if record.type == CycleRecorded.TYPE:
                value = without_frame(value)
            digest.update(len(value).to_bytes(8, "big"))
            digest.update(value)
        self._partitions[record.partition] = (digest, count + 1)

    def hexdigest(self) -> str:
        """Return the digest of what was taken so far."""
        whole = hashlib.sha256()
        for partition, (digest, count) in sorted(self._partitions.items()):
            whole.update(partition.to_bytes(8, "big") + count.to_bytes(8, "big") + digest.digest())
        return whole.hexdigest()
