"""Who was heard when: silence in market time during which barriers flowed (design §5).

When a report was read is not in the report, and a sender's clock is not to be trusted. So the
state keeps marks, one a step: its market time, and how far ``node.health`` had been read then. The
topic itself, of one partition, holds the last report of every node with its offset; the first mark
that has read as far tells when the node was heard. One small record a step restores all of it.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import Record, StateChange

CLOCK: Final = "clock"
"""Key of the record of the own state."""
MARKS: Final = 64
"""Marks closer together than a timeout's 64th are merged: then a node is lost that much later."""
HOLE_INTERVALS: Final = 2
"""A longer time between two barriers is an interruption."""

Mark = tuple[int, int]
"""Market time of a step, and the offset of the last report read by then."""


class Heartbeats:
    """The last report of each node, and marks that tell when it was read."""

    def __init__(self) -> None:
        self._offsets: dict[str, int] = {}
        """Longest silent first."""
        self._read = -1
        self._marks: list[Mark] = []

    def fold(self, record: Record) -> None:
        """Take a report; a tombstone: the agent is gone for good, nothing is expected of it.

        Raises
        ------
        InvariantBrokenError
            The topic has more than one partition: offsets do not order its reports.
        """
        if record.partition:
            raise InvariantBrokenError(f"{record.topic} has a partition {record.partition}")
        self._offsets.pop(record.key, None)
        if record.value is not None:
            self._offsets[record.key] = record.offset
        self._read = max(self._read, record.offset)

    def load(self, value: bytes) -> None:
        """Take back the marks."""
        self._marks = [(at_ms, offset) for at_ms, offset in json.loads(value)]
        self._read = max(self._read, self._marks[-1][1])

    @property
    def read(self) -> int:
        """Offset of the last report read."""
        return self._read

    def advance(
        self, market_time_ms: int, interval_ms: int, timeout_ms: int, *, is_whole: bool
    ) -> list[StateChange]:
        """Begin a step.

        Parameters
        ----------
        market_time_ms
            Of the step.
        interval_ms
            Market time between barriers as it should be. After a longer interruption than two of
            them all timers start again: whoever could not be heard was not silent.
        timeout_ms
            How long silences are looked at.
        is_whole
            Whether all reports up to the barrier are there; where not, this is an interruption.

        Returns
        -------
        list
            The change of the own state; none while no node ever reported.
        """
        if not self._offsets and not self._marks:
            return []
        before_ms = self._marks[-1][0] if self._marks else market_time_ms
        if not is_whole or market_time_ms - before_ms > HOLE_INTERVALS * interval_ms:
            self._marks.clear()
        self._marks.append((market_time_ms, self._read))
        self._thin(market_time_ms - timeout_ms, timeout_ms // MARKS)
        return [StateChange(CLOCK, json.dumps(self._marks, separators=(",", ":")).encode())]

    def silent(self, timeout_ms: int) -> Iterator[tuple[str, int]]:
        """Yield the nodes that have been silent for that long, with the offset of their report."""
        if not self._marks:
            return
        now_ms = self._marks[-1][0]
        for node, offset in self._offsets.items():
            heard_ms, _ = self._marks[bisect_left(self._marks, offset, key=_offset_of)]
            if now_ms - heard_ms < timeout_ms:
                return
            yield node, offset

    def _thin(self, until_ms: int, least_ms: int) -> None:
        """Drop marks that tell nothing more: one that is old enough, and one amid close ones."""
        while len(self._marks) > 1 and self._marks[1][0] <= until_ms:
            del self._marks[0]
        if len(self._marks) > 2 and self._marks[-1][0] - self._marks[-3][0] < least_ms:
            del self._marks[-2]


def _offset_of(mark: Mark) -> int:
    return mark[1]
