"""A log in memory, for tests only: what is put there, and what somebody answers to it."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from walras.jobs_log.items import Item, Place, Watch
from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.topics import load_topics
from walras_runtime.records import Barrier

STRETCH = 3


class StillWaitingError(AssertionError):
    """A follower waits although nothing comes any more."""


@dataclass(slots=True)
class MemoryLog:
    """Topics with the partitions of the registry.

    ``on_write`` is told each event that a command writes, and may put answers; ``on_idle`` is
    called when a follower has seen all there is, and returns whether more may come.
    """

    on_write: Callable[["MemoryLog", Item], None] = lambda _log, _item: None
    on_idle: Callable[["MemoryLog"], bool] = lambda _log: False
    written: list[Item] = field(default_factory=list)
    barrier: Barrier | None = None
    _items: dict[tuple[str, int], list[Item]] = field(default_factory=dict)
    _positions: dict[tuple[str, int], int] = field(default_factory=dict)

    def put(self, *events: Event) -> None:
        """Append events."""
        for event in events:
            self._append(event.TOPIC, event.partition_key(), event.record_key(), event)

    def put_at(self, event: Event, partition: int | None) -> None:
        """Append an event to a partition that is not that of its key."""
        chosen = self._chosen(event.TOPIC, event.partition_key())[0]
        chosen = chosen if partition is None else partition
        items = self._partition(event.TOPIC, chosen)
        items.append(Item(event.TOPIC, chosen, len(items), event.record_key(), event))

    def end(self, model: type[Event], key: str, partition_key: str) -> None:
        """Append a tombstone."""
        self._append(model.TOPIC, partition_key, key, None)

    def pass_barrier(self, at_ms: int, *topics: str) -> None:
        """Append the next barrier to all partitions of topics; none named: of all that have any."""
        number = 0 if self.barrier is None else self.barrier.number + 1
        self.barrier = Barrier(number, at_ms)
        self.pass_same_barrier(*topics)

    def pass_same_barrier(self, *topics: str) -> None:
        """Append the last barrier to further topics."""
        assert self.barrier is not None
        for name, topic in load_topics().items():
            if topic.barriers != "none" and (name in topics or not topics):
                for partition in range(topic.partitions):
                    items = self._partition(name, partition)
                    items.append(Item(name, partition, len(items), "", barrier=self.barrier))

    def read(
        self, topic: str, *models: type[Event], partition_key: str | None = None
    ) -> Iterator[Item]:
        """Yield what is there."""
        for partition in self._chosen(topic, partition_key):
            items = self._partition(topic, partition)
            self._positions[topic, partition] = len(items)
            yield from (item for item in items if _is_wanted(item, models))

    def backwards(
        self, topic: str, *models: type[Event], partition_key: str
    ) -> Iterator[Sequence[Item]]:
        """Yield a partition in short stretches."""
        (partition,) = self._chosen(topic, partition_key)
        items = self._partition(topic, partition)
        for end in range(len(items), 0, -STRETCH):
            stretch = items[max(0, end - STRETCH) : end]
            yield [item for item in stretch if _is_wanted(item, models)]

    def follow(self, watches: Iterable[Watch]) -> Generator[Item | None, None, None]:
        """Yield what comes."""
        models: dict[tuple[str, int], tuple[type[Event], ...]] = {}
        for watch in watches:
            for partition in self._chosen(watch.topic, watch.partition_key):
                models[watch.topic, partition] = watch.models
                place = (watch.topic, partition)
                self._positions.setdefault(place, len(self._partition(*place)))
        while True:
            news = False
            for place, wanted in models.items():
                items = self._partition(*place)
                while self._positions[place] < len(items):
                    item = items[self._positions[place]]
                    self._positions[place] += 1
                    if _is_wanted(item, wanted):
                        news = True
                        yield item
            if not news:
                may_come = self.on_idle(self)
                yield None
                if not may_come:
                    raise StillWaitingError(f"of {sorted(models)} nothing comes any more")

    def write(self, event: Event, event_id: str, source: str) -> Place:
        """Append an event of a command."""
        item = self._append(
            event.TOPIC,
            event.partition_key(),
            event.record_key(),
            event,
            event_id=event_id,
            source=source,
        )
        self._positions[item.topic, item.partition] = item.offset + 1
        self.written.append(item)
        self.on_write(self, item)
        return Place(item.topic, item.partition, item.offset)

    def _append(
        self,
        topic: str,
        partition_key: str,
        key: str,
        event: Event | None,
        *,
        event_id: str = "",
        source: str = "",
    ) -> Item:
        (partition,) = self._chosen(topic, partition_key)
        items = self._partition(topic, partition)
        item = Item(topic, partition, len(items), key, event, None, event_id, source)
        items.append(item)
        return item

    def _partition(self, topic: str, partition: int) -> list[Item]:
        return self._items.setdefault((topic, partition), [])

    def _chosen(self, topic: str, partition_key: str | None) -> Sequence[int]:
        count = load_topics()[topic].partitions
        return range(count) if partition_key is None else [partition_of(partition_key, count)]


def _is_wanted(item: Item, models: tuple[type[Event], ...]) -> bool:
    return item.event is None or isinstance(item.event, models)
