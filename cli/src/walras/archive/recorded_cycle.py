"""One cycle of one market as it was recorded, and whether all of it is there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from walras_contracts.market import CycleFramed, CycleRecorded

RecordedEvent = CycleRecorded | CycleFramed
HEAD_PART = -1
"""Stands where a frame has its part number, so that the record comes before its frame."""
Place = tuple[int, int]
"""Cycle, and part number or `HEAD_PART`: where an event stands among those of its market."""


class ArchiveError(ValueError):
    """Stored cycles cannot be read, or contradict each other; the message says where."""

    code: ClassVar[str] = "archive_unreadable"
    retriable: ClassVar[bool] = False


class BrokenCycleError(ArchiveError):
    """A cycle of a market, or a part of its frame, is not there or contradicts itself."""

    code = "cycle_broken"

    def __init__(self, market: str, cycle: int, reason: str) -> None:
        super().__init__(f"market {market}, cycle {cycle}: {reason}")
        self.market = market
        self.cycle = cycle
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """The record of a cycle (None where it is not there) and the parts of its frame, in order.

    ``oldest`` tells that it lies where retention takes records away: what is missing there is no
    fault of the log.
    """

    market: str
    cycle: int
    head: CycleRecorded | None
    frames: tuple[CycleFramed, ...]
    oldest: bool = False

    def fault(self) -> str:
        """Return what is missing or contradicts the record; empty where the cycle is whole."""
        head = self.head
        if head is None:
            return "its record is missing"
        parts = {frame.part for frame in self.frames}
        for part in range(head.frames):
            if part not in parts:
                return f"part {part} of {head.frames} of its frame is missing"
        if len(self.frames) != head.frames:
            return f"its frame has {len(self.frames)} parts, the record says {head.frames}"
        for frame in self.frames:
            if (frame.parts, frame.kind) != (head.frames, head.frame):
                return (
                    f"part {frame.part} is one of {frame.parts} of a frame of {frame.kind}, "
                    f"the record says {head.frames} of {head.frame}"
                )
            if frame.market_time_ms != head.market_time_ms:
                return f"part {frame.part} is of another market time than the record"
        return ""

    def whole(self) -> CycleRecorded:
        """Return the record of a cycle of which nothing is missing.

        Raises
        ------
        BrokenCycleError
            Something is; the message says what.
        """
        fault = self.fault()
        if fault or self.head is None:
            raise BrokenCycleError(self.market, self.cycle, fault)
        return self.head

    def events(self) -> tuple[RecordedEvent, ...]:
        """Return the record and the parts of the frame, in the order of their places."""
        return self.frames if self.head is None else (self.head, *self.frames)


def place_of(event: RecordedEvent) -> Place:
    """Return where an event stands among those of its market."""
    return event.cycle, HEAD_PART if isinstance(event, CycleRecorded) else event.part


def gap(market: str, expected: int, cycle: int) -> BrokenCycleError | None:
    """Return what is missing where a cycle comes and an earlier one was expected, if anything."""
    if cycle <= expected:
        return None
    last = cycle - 1
    reason = "it is missing" if last == expected else f"all up to {last} are missing"
    return BrokenCycleError(market, expected, reason)


def grouped(events: Iterable[RecordedEvent], *, oldest: bool = False) -> Iterator[RecordedCycle]:
    """Put together what belongs to one cycle; its events lie together, the record first.

    Raises
    ------
    ArchiveError
        A cycle has two records.
    """
    for (market, cycle), members in groupby(events, key=lambda event: (event.market, event.cycle)):
        head: CycleRecorded | None = None
        frames: list[CycleFramed] = []
        for event in members:
            if not isinstance(event, CycleRecorded):
                frames.append(event)
            elif head is None:
                head = event
            else:
                raise ArchiveError(f"market {market}, cycle {cycle}: it is recorded twice")
        yield RecordedCycle(market, cycle, head, tuple(frames), oldest)
