"""A log of topics in memory, with compaction, for simulations and broker-less runs."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from walras_contracts.identifiers import partition_of
from walras_contracts.topics import Topic
from walras_runtime.records import BARRIER_TYPE, Barrier, Output


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of the log; ``barrier`` is set on barriers only."""

    offset: int
    key: str
    type: str
    payload: bytes | None
    barrier: Barrier | None = None
    event_id: str | None = None
    source: str | None = None


@dataclass(slots=True)
class MemoryLog:
    """Topics, partitions and entries in memory; appends are atomic per call."""

    topics: Mapping[str, Topic]
    entries: dict[tuple[str, int], list[Entry]] = field(default_factory=dict)
    _next: dict[tuple[str, int], int] = field(default_factory=dict)

    def partitions(self, topic: str) -> range:
        """Return the partitions of a topic."""
        return range(self.topics[topic].partitions)

    def append(
        self,
        outputs: Sequence[Output],
        *,
        source: str = "memory",
        event_ids: Sequence[str] | None = None,
    ) -> None:
        """Append outputs in order; all or nothing is up to the caller."""
        for index, output in enumerate(outputs):
            count = self.topics[output.topic].partitions
            partition = output.partition
            if partition is None:
                partition = partition_of(output.partition_key, count)
            event_id = event_ids[index] if event_ids is not None else f"{source}/{index}"
            self._put(
                output.topic,
                partition,
                Entry(0, output.key, output.type, output.payload, None, event_id, source),
            )

    def append_barrier(self, topic: str, partition: int, barrier: Barrier) -> None:
        """Append a barrier to one partition."""
        key = barrier.key(cyclic=self.topics[topic].cleanup == "compact")
        self._put(topic, partition, Entry(0, key, BARRIER_TYPE, b"", barrier))

    def read(self, topic: str, partition: int, offset: int) -> list[Entry]:
        """Return the entries from ``offset`` on."""
        held = self.entries.get((topic, partition), [])
        return held[bisect_left(held, offset, key=lambda entry: entry.offset) :]

    def compact(self, topic: str) -> None:
        """Keep the latest entry of each key, as a broker's cleaner would."""
        for partition in self.partitions(topic):
            held = self.entries.get((topic, partition), [])
            last = {entry.key: entry.offset for entry in held}
            self.entries[topic, partition] = [e for e in held if last[e.key] == e.offset]

    def _put(self, topic: str, partition: int, entry: Entry) -> None:
        key = (topic, partition)
        offset = self._next.get(key, 0)
        self._next[key] = offset + 1
        self.entries.setdefault(key, []).append(replace(entry, offset=offset))
