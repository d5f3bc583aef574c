"""Alignment: which records belong to step n, and whether all of them are there.

Pure bookkeeping over what was read so far. A partition is complete for step n when its barrier
n - lag has been read (step protocol §1).
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from walras_runtime.errors import BarrierFaultError, InvariantBrokenError
from walras_runtime.records import Barrier, Record
from walras_runtime.stage import Input

PartitionKey = tuple[str, int]
INTERVALS_AHEAD = 4
"""Of a partition so many are offered to be decoded before their step: what a stage that is up to
date holds. One that catches up holds many more, which are decoded when their turn comes."""


@dataclass(slots=True)
class Interval:
    """Records of a partition up to a barrier, which has come only where ``barrier`` is set.

    The first ``looked_at`` of them have been tried to decode ahead of their step.
    """

    records: list[Record] = field(default_factory=list)
    looked_at: int = 0
    barrier: Barrier | None = None
    end_offset: int = -1
    """First offset behind the barrier."""


@dataclass(slots=True)
class _Partition:
    input: Input
    next_offset: int
    delivered: int = -1
    seen: int = -1
    intervals: deque[Interval] = field(default_factory=lambda: deque([Interval()]))
    """The last one is open."""
    late: bool = False
    epoch: int = -1
    """Highest epoch whose barrier was taken in."""
    begins: int = 0
    """First barrier of a table that begins in the middle of the sequence."""
    fault: str = ""
    """The first barrier that could not be the next one; empty once that one has come."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """The records of one step, and where each partition stands after it."""

    barrier: Barrier
    records: Mapping[str, list[Record]]
    late: tuple[str, ...]


class Aligner:
    """Sorts what was read into steps.

    Parameters
    ----------
    inputs
        The stage's inputs, in handing-over order.
    partitions
        For each topic the partitions that this stage reads.
    offsets
        First offset not yet consumed, per (topic, partition); 0 where absent.
    delivered
        The last barrier handed over, per (topic, partition); -1 where absent.
    """

    def __init__(
        self,
        inputs: tuple[Input, ...],
        partitions: Mapping[str, Iterable[int]],
        offsets: Mapping[PartitionKey, int],
        delivered: Mapping[PartitionKey, int],
    ) -> None:
        self._inputs = inputs
        self._partitions: dict[PartitionKey, _Partition] = {}
        for source in inputs:
            for partition in sorted(partitions[source.topic]):
                key = (source.topic, partition)
                last = delivered.get(key, -1)
                self._partitions[key] = _Partition(source, offsets.get(key, 0), last, last)

    def push_record(self, record: Record) -> None:
        """Take the next record of a partition."""
        self._partitions[record.topic, record.partition].intervals[-1].records.append(record)

    def push_barrier(
        self, topic: str, partition: int, offset: int, barrier: Barrier, *, epoch: int = 0
    ) -> bool:
        """Take the next barrier of a partition; tell whether it ends a step.

        Passed over are a number that was seen already, since readers have gone on from its first
        record; a barrier of an older epoch than the last one, since its writer has been replaced
        (step protocol §1); and one that leaves a number out. The last two are kept in mind: a step
        that waits for the right barrier is told of them, unless that one has come since.

        A table that is read from its beginning may begin with any number: compaction removes old
        barriers (decision 9).
        """
        held = self._partitions[topic, partition]
        number, begins = barrier.number, held.seen == -1 and held.next_offset == 0
        if number <= held.seen:
            return False
        fault = ""
        if epoch < held.epoch:
            fault = f"of epoch {epoch} follows one of epoch {held.epoch}"
        elif number != held.seen + 1 and not (begins and held.input.table):
            fault = f"follows {held.seen}"
        if fault:
            held.fault = held.fault or f"{topic}/{partition}@{offset}: barrier {number} {fault}"
            return False
        if begins:
            held.begins = number
        held.seen, held.epoch, held.fault = number, epoch, ""
        closed = held.intervals[-1]
        closed.barrier, closed.end_offset = barrier, offset + 1
        held.intervals.append(Interval())
        return True

    def not_looked_at(self) -> Iterator[tuple[Input, Interval]]:
        """Yield intervals with records that may be decoded ahead of their step, next ones first."""
        for place in range(INTERVALS_AHEAD):
            for held in self._partitions.values():
                if place < len(held.intervals):
                    interval = held.intervals[place]
                    if interval.looked_at < len(interval.records):
                        yield held.input, interval

    def starts_at(self) -> int:
        """Return the first step that all tables reach back to; 0 where they are whole."""
        begins = [h.begins + h.input.lag for h in self._partitions.values() if h.begins]
        return max(begins, default=0)

    def missing(self, number: int) -> list[PartitionKey]:
        """Return the partitions that step ``number`` still waits for."""
        return [
            key for key, held in self._partitions.items() if held.seen < number - held.input.lag
        ]

    def ready(self, number: int) -> bool:
        """Whether step ``number`` has all of its inputs.

        Raises
        ------
        BarrierFaultError
            It never will: a barrier that it needs is missing in the log, or a table begins after
            it.
        """
        found = True
        for (topic, partition), held in self._partitions.items():
            wanted = number - held.input.lag
            if held.seen < wanted:
                found = False
                if held.fault:
                    raise BarrierFaultError(held.fault)
            elif 0 <= wanted < held.begins:
                raise BarrierFaultError(
                    f"{topic}/{partition} begins with barrier {held.begins}; what step {number} "
                    "needs of it has been compacted away"
                )
        return found

    def newest_ready(self) -> int:
        """Return the last step that need not wait; -1 before the first.

        Partitions that the last step did not wait for are not waited for by the next ones either
        (:meth:`only_known_late`), so they do not count.
        """
        prompt = [h.seen + h.input.lag for h in self._partitions.values() if not h.late]
        taken = [h.delivered + h.input.lag for h in self._partitions.values()]
        return min(prompt) if prompt else max(taken, default=-1)

    def may_go_on_without(self, number: int) -> bool:
        """Whether all that step ``number`` waits for may be late, and something has arrived."""
        missing = self.missing(number)
        waited = [key for key in missing if not self._partitions[key].input.may_be_late]
        return not waited and any(
            held.seen >= number and held.input.lag == 0 for held in self._partitions.values()
        )

    def only_known_late(self, number: int) -> bool:
        """Whether step ``number`` waits for nothing but partitions that were late before."""
        missing = self.missing(number)
        return bool(missing) and all(self._partitions[key].late for key in missing)

    def take(self, number: int) -> Aligned:
        """Return step ``number`` and forget its records.

        A partition that is not complete gives what it has up to its last barrier, and is named as
        late with that barrier: one that always stays a little behind is still read.

        Raises
        ------
        BarrierFaultError
            The partitions disagree on the barrier's market time.
        InvariantBrokenError
            None shows the barrier.
        """
        barrier: Barrier | None = None
        records: dict[str, list[Record]] = {source.topic: [] for source in self._inputs}
        late: list[str] = []
        for (topic, partition), held in self._partitions.items():
            wanted = number - held.input.lag
            held.late = held.seen < wanted
            if held.late:
                late.append(f"{topic}/{partition}@{held.seen}")
            while held.delivered < min(wanted, held.seen):
                interval = held.intervals.popleft()
                records[topic] += interval.records
                last = interval.barrier
                assert last is not None  # only the interval behind the last barrier is open
                held.next_offset, held.delivered = interval.end_offset, last.number
                if held.input.lag == 0 and last.number == number:
                    if barrier is not None and barrier != last:
                        raise BarrierFaultError(
                            f"{topic}/{partition}@{interval.end_offset - 1}: barrier {number} is "
                            f"{last}, elsewhere {barrier}"
                        )
                    barrier = last
        if barrier is None:
            raise InvariantBrokenError(f"barrier {number} was taken but no input shows it")
        return Aligned(barrier, records, tuple(late))

    def position(self) -> dict[PartitionKey, int]:
        """Return the first offset not yet consumed, per partition."""
        return {key: held.next_offset for key, held in self._partitions.items()}

    def delivered(self) -> dict[PartitionKey, int]:
        """Return the last barrier handed over, per partition."""
        return {key: held.delivered for key, held in self._partitions.items()}
