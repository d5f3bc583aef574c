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
    """The last committed step (-1: none), and per input partition the next offset and barrier.

    Parameters
    ----------
    step, market_time_ms
        The step and its market time.
    offsets, delivered
        Per input partition the first offset not yet consumed, and the last barrier handed over.
    epoch
        Epoch of the owner that committed the step.
    mirrored
        Inputs whose records the state topic mirrors (:mod:`walras_runtime.tables`); None where
        the writer did not say.
    """

    step: int
    market_time_ms: int
    offsets: Mapping[PartitionKey, int]
    delivered: Mapping[PartitionKey, int]
    epoch: int = 0
    mirrored: tuple[str, ...] | None = None

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
                "epoch": self.epoch,
                "mirrored": self.mirrored,
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
        mirrored = document.get("mirrored")
        return Position(
            document["step"],
            document["market_time_ms"],
            offsets,
            delivered,
            document.get("epoch", 0),
            None if mirrored is None else tuple(mirrored),
        )
