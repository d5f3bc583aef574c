"""Alignment: which records belong to step n, and whether all of them are there.

Pure bookkeeping over what was read so far. A partition is complete for step n when its barrier
n - lag has been read (step protocol §1).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import Barrier, Record
from walras_runtime.stage import Input

PartitionKey = tuple[str, int]
Item = tuple[int, Record | Barrier]


@dataclass(slots=True)
class _Partition:
    input: Input
    next_offset: int
    delivered: int = -1
    seen: int = -1
    items: deque[Item] = field(default_factory=deque)
    late: bool = False


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
        self._partitions[record.topic, record.partition].items.append((record.offset, record))

    def push_barrier(self, topic: str, partition: int, offset: int, barrier: Barrier) -> None:
        """Take the next barrier of a partition; one that was seen already is passed over.

        Raises
        ------
        InvariantBrokenError
            A number is missing.
        """
        held = self._partitions[topic, partition]
        if barrier.number <= held.seen:
            return
        if barrier.number != held.seen + 1:
            raise InvariantBrokenError(
                f"{topic}/{partition}: barrier {barrier.number} follows {held.seen}"
            )
        held.seen = barrier.number
        held.items.append((offset, barrier))

    def missing(self, number: int) -> list[PartitionKey]:
        """Return the partitions that step ``number`` still waits for."""
        return [
            key for key, held in self._partitions.items() if held.seen < number - held.input.lag
        ]

    def ready(self, number: int) -> bool:
        """Whether step ``number`` has all of its inputs."""
        return all(held.seen >= number - held.input.lag for held in self._partitions.values())

    def newest_ready(self) -> int:
        """Return the last step that has all of its inputs; -1 before the first."""
        return min(held.seen + held.input.lag for held in self._partitions.values())

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
        InvariantBrokenError
            The partitions disagree on the barrier's market time, or none shows it.
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
                offset, item = held.items.popleft()
                held.next_offset = offset + 1
                if isinstance(item, Record):
                    records[topic].append(item)
                    continue
                held.delivered = item.number
                if held.input.lag == 0 and item.number == number:
                    if barrier is not None and barrier != item:
                        raise InvariantBrokenError(f"barrier {number}: {barrier} is not {item}")
                    barrier = item
        if barrier is None:
            raise InvariantBrokenError(f"barrier {number} was taken but no input shows it")
        return Aligned(barrier, records, tuple(late))

    def position(self) -> dict[PartitionKey, int]:
        """Return the first offset not yet consumed, per partition."""
        return {key: held.next_offset for key, held in self._partitions.items()}

    def delivered(self) -> dict[PartitionKey, int]:
        """Return the last barrier handed over, per partition."""
        return {key: held.delivered for key, held in self._partitions.items()}
