"""Where a stage stands: its last committed step and the offsets behind it.

Kept as one record of the stage's own state topic, written in the transaction of each step, so that
state and position cannot diverge.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from walras_runtime.align import PartitionKey


@dataclass(frozen=True, slots=True)
class Position:
    """The last committed step (-1: none), and per input partition the next offset and barrier."""

    step: int
    market_time_ms: int
    offsets: Mapping[PartitionKey, int]
    delivered: Mapping[PartitionKey, int]

    @staticmethod
    def start() -> "Position":
        """Return the position before the first step."""
        return Position(-1, -1, {}, {})

    def payload(self) -> bytes:
        """Return the record's value."""
        return json.dumps(
            {
                "step": self.step,
                "market_time_ms": self.market_time_ms,
                "inputs": {
                    f"{topic}/{partition}": [offset, self.delivered[topic, partition]]
                    for (topic, partition), offset in sorted(self.offsets.items())
                },
            },
            separators=(",", ":"),
        ).encode()

    @staticmethod
    def parse(payload: bytes) -> "Position":
        """Read a record's value."""
        document = json.loads(payload)
        offsets: dict[PartitionKey, int] = {}
        delivered: dict[PartitionKey, int] = {}
        for name, (offset, barrier) in document["inputs"].items():
            topic, _, partition = name.rpartition("/")
            offsets[topic, int(partition)] = offset
            delivered[topic, int(partition)] = barrier
        return Position(document["step"], document["market_time_ms"], offsets, delivered)
