"""Where events come from: the log of a broker, or files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeVar

from walras.archive.progress import progress_bar
from walras.billing_log.event_files import events_of_file
from walras.billing_log.topic_reading import TopicRead, events_of_topic
from walras_contracts.event import Event
from walras_contracts.topics import load_topics
from walras_runtime.records import Barrier

E = TypeVar("E", bound=Event)
NO_TIME_MS: Final = -1


class StepTime(NamedTuple):
    """When an event was decided: market time of its barrier, and of the one before (-1: none)."""

    at_ms: int
    before_ms: int


class Source(Protocol):
    """Gives events of the types named, those of a topic's partition in the order of the log."""

    def read(self, *models: type[E], partition_key: str | None = None) -> Iterator[E]:
        """Yield events; with a partition key, those of others may be left out.

        Raises
        ------
        BillingLogError
            The source cannot be read, or holds what is no event.
        """

    def read_in_steps(self, *models: type[E]) -> Iterator[tuple[E, StepTime | None]]:
        """Yield events with their steps; None: no barrier lies behind the event.

        Raises
        ------
        BillingLogError
            As :meth:`read`.
        """

    def latest(self, model: type[E], partition_key: str | None = None) -> dict[str, E]:
        """Return the last event of each key of a compacted topic, without what a tombstone ended.

        Raises
        ------
        BillingLogError
            As :meth:`read`.
        """


@dataclass(frozen=True, slots=True)
class Kafka:
    """The committed log of a broker, host:port."""

    bootstrap: str

    def read(self, *models: type[E], partition_key: str | None = None) -> Iterator[E]:
        """Yield the events, topic after topic in the order of the models."""
        for found in self._found(models, partition_key):
            if isinstance(found, tuple) and found[1] is not None:
                yield found[1]

    def read_in_steps(self, *models: type[E]) -> Iterator[tuple[E, StepTime | None]]:
        """Yield the events, topic after topic, each partition by itself."""
        yield from in_steps(self._without_tombstones(models))

    def latest(self, model: type[E], partition_key: str | None = None) -> dict[str, E]:
        """Fold the topic by key."""
        latest: dict[str, E] = {}
        for found in self._found((model,), partition_key):
            if isinstance(found, tuple):
                key, event = found
                if event is None:
                    latest.pop(key, None)
                else:
                    latest[key] = event
        return latest

    def _without_tombstones(self, models: tuple[type[E], ...]) -> Iterator[E | Barrier | None]:
        for found in self._found(models, None):
            if not isinstance(found, tuple):
                yield found
            elif found[1] is not None:
                yield found[1]

    def _found(
        self, models: tuple[type[E], ...], partition_key: str | None
    ) -> Iterator[tuple[str, E | None] | Barrier | None]:
        registry = load_topics()
        for name in dict.fromkeys(model.TOPIC for model in models):
            wanted = frozenset(model.TYPE for model in models if name == model.TOPIC)
            read = TopicRead(registry[name], wanted, partition_key)
            with progress_bar(f"reading {name}") as told:
                for found in events_of_topic(self.bootstrap, read, told):
                    if isinstance(found, tuple):
                        key, event = found
                        assert event is None or isinstance(event, models)
                        yield key, event
                    else:
                        yield found


@dataclass(frozen=True, slots=True)
class Files:
    """Files of payloads; each is read anew for every question.

    They hold no tombstones: what was ended stays in :meth:`latest`.
    """

    names: Sequence[str]

    def read(
        self,
        *models: type[E],
        partition_key: str | None = None,  # noqa: ARG002 # files have no partitions
    ) -> Iterator[E]:
        """Yield the events, file after file, each in its order."""
        for event in self._found(models):
            if event is not None and not isinstance(event, Barrier):
                yield event

    def read_in_steps(self, *models: type[E]) -> Iterator[tuple[E, StepTime | None]]:
        """Yield the events, file after file; their barriers stand in the files, too."""
        yield from in_steps(self._found(models))

    def latest(
        self,
        model: type[E],
        partition_key: str | None = None,  # noqa: ARG002 # files have no partitions
    ) -> dict[str, E]:
        """Fold the events by key."""
        return {event.record_key(): event for event in self.read(model)}

    def _found(self, models: tuple[type[E], ...]) -> Iterator[E | Barrier | None]:
        wanted = frozenset(model.TYPE for model in models)
        for name in self.names:
            with progress_bar(f"reading {name}") as told:
                for found in events_of_file(name, wanted, told):
                    if isinstance(found, Barrier):
                        yield found
                    else:
                        assert isinstance(found, models)
                        yield found
            yield None


def in_steps(found: Iterable[E | Barrier | None]) -> Iterator[tuple[E, StepTime | None]]:
    """Give events the step that the next barrier of their partition ends; None ends a partition."""
    waiting: list[E] = []
    last: Barrier | None = None
    for item in found:
        if item is None:
            yield from ((event, None) for event in waiting)
            waiting, last = [], None
        elif isinstance(item, Barrier):
            # A lower number: another partition begins in the same file.
            follows = last is not None and last.number < item.number
            before_ms = last.market_time_ms if last is not None and follows else NO_TIME_MS
            yield from ((event, StepTime(item.market_time_ms, before_ms)) for event in waiting)
            waiting, last = [], item
        else:
            waiting.append(item)
