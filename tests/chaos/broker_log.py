"""What readers see of a broker's log, as a log in memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from walras_contracts.topics import Topic
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.memory.log import Entry, MemoryLog
from walras_runtime.records import BARRIER_TYPE


@dataclass(slots=True)
class SeenLog:
    """A log as read_committed readers see it; ``epochs`` are those of the barriers, in order."""

    log: MemoryLog
    epochs: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def put(self, topic: str, partition: int, entry: Entry, epoch: int | None = None) -> None:
        """Append an entry; a barrier with the epoch of its writer."""
        self.log.entries.setdefault((topic, partition), []).append(entry)
        if epoch is not None:
            self.epochs.setdefault((topic, partition), []).append(epoch)

    def barriers(self, topic: str, partition: int) -> list[int]:
        """Return the numbers of the barriers of a partition, in order."""
        found = self.log.read(topic, partition, 0)
        return [entry.barrier.number for entry in found if entry.barrier is not None]

    def only(self, names: Iterable[str]) -> MemoryLog:
        """Return a log with some topics alone, numbered anew from 0."""
        part = MemoryLog(self.log.topics)
        for name in names:
            for partition in self.log.partitions(name):
                held = self.log.read(name, partition, 0)
                part.entries[name, partition] = [
                    replace(entry, offset=index) for index, entry in enumerate(held)
                ]
        return part


async def read_log(bootstrap: str, topics: Mapping[str, Topic], names: Iterable[str]) -> SeenLog:
    """Read all committed records of some topics."""
    seen = SeenLog(MemoryLog(topics))
    for name in names:
        topic = topics[name]
        for message in await read_all(bootstrap, topic.full_name, range(topic.partitions)):
            item = parse_message(message, name)
            if isinstance(item, BarrierMark):
                key = (message.key or b"").decode()
                entry = Entry(item.offset, key, BARRIER_TYPE, b"", item.barrier)
                seen.put(name, message.partition, entry, item.epoch)
                continue
            entry = Entry(
                item.offset, item.key, item.type, item.value, None, item.event_id, item.source
            )
            seen.put(name, message.partition, entry)
    return seen
