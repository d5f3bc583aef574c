"""Which step each record of a log belongs to, and how far the log can be audited.

What lies before barrier n, and after barrier n-1, is of step n. All topics are audited up to one
barrier, the last that all of them show: what lies behind it is in flight.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from walras.audit.log_view import (
    BILLING_TOPICS,
    INPUT_TOPICS,
    NO_BARRIER,
    AuditError,
    AuditLog,
    Entry,
)
from walras_contracts.topics import load_topics

COMPACTED: Final = frozenset(
    name for name, topic in load_topics().items() if topic.cleanup == "compact"
)

SPREAD: Final = frozenset(("usage", "drain.status", *BILLING_TOPICS))
"""Topics whose partitions belong together: one of each is what one team's money is in."""


class Clock:
    """The market times of the barriers of a log, by number."""

    def __init__(self, times_ms: list[int]) -> None:
        self.times_ms = times_ms

    @property
    def last(self) -> int:
        """Number of the last barrier that is audited."""
        return len(self.times_ms) - 1

    def step_at(self, at_ms: int) -> int | None:
        """Return the first step at or after an instant; None: it has not come."""
        number = bisect_left(self.times_ms, at_ms)
        return number if number < len(self.times_ms) else None


def last_common_barrier(log: AuditLog) -> int:
    """Return the last barrier that all that billing reads and writes shows.

    Raises
    ------
    AuditError
        A topic is missing, or none of its barriers is there, or one that is spread by team has
        another number of partitions than ``usage``.
    """
    found: int | None = None
    spread = len(log.partitions("usage"))
    for topic in (*INPUT_TOPICS, *BILLING_TOPICS):
        partitions = log.partitions(topic)
        if not partitions:
            raise AuditError(f"the log has no topic {topic}")
        if topic in SPREAD and len(partitions) != spread:
            raise AuditError(f"{topic} has {len(partitions)} partitions, usage has {spread}")
        for partition in partitions:
            number = log.last_barrier(topic, partition)
            if number == NO_BARRIER:
                raise AuditError(f"{topic}/{partition} has no barrier: nothing was settled there")
            found = number if found is None else min(found, number)
    assert found is not None
    return found


def read_clock(log: AuditLog, last: int) -> Clock:
    """Return the barriers up to one, as the first partition of ``usage`` shows them."""
    times_ms = [
        entry.barrier[1] for entry in _up_to(log, "usage", 0, last) if entry.barrier is not None
    ]
    return Clock(times_ms)


def records(log: AuditLog, topic: str, partition: int, last: int) -> Iterator[tuple[int, Entry]]:
    """Yield the records of a partition up to a barrier, each with its step.

    Of a compacted topic old barriers are gone, and the step is the least that is possible.

    Raises
    ------
    AuditError
        A barrier is missing.
    """
    step = 0
    for entry in _up_to(log, topic, partition, last):
        if entry.barrier is None:
            yield step, entry
        else:
            step = entry.barrier[0] + 1


def _up_to(log: AuditLog, topic: str, partition: int, last: int) -> Iterator[Entry]:
    """Yield records and barriers in order; a barrier that was seen already is passed over."""
    seen = NO_BARRIER
    compacted = topic in COMPACTED
    for entry in log.entries(topic, partition):
        if entry.barrier is None:
            yield entry
            continue
        number = entry.barrier[0]
        if number <= seen:
            continue
        if number != seen + 1 and not compacted:
            raise AuditError(f"{topic}/{partition}@{entry.offset}: barrier {number} follows {seen}")
        seen = number
        yield entry
        if number >= last:
            return
