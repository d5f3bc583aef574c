"""What the commands about jobs and nodes read of a log, whatever holds the log."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from walras_contracts.event import Event
from walras_runtime.records import Barrier


@dataclass(frozen=True, slots=True)
class Item:
    """One record: an event, a tombstone (neither event nor barrier), or a barrier."""

    topic: str
    partition: int
    offset: int
    key: str
    event: Event | None = None
    barrier: Barrier | None = None
    event_id: str = ""
    source: str = ""

    @property
    def is_tombstone(self) -> bool:
        """Whether it ends its key."""
        return self.event is None and self.barrier is None


class Place(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Watch:
    """What is followed of a topic: event types, and the partition of a key (None: all)."""

    topic: str
    models: tuple[type[Event], ...]
    partition_key: str | None = None


class Log(Protocol):
    """A log as it is committed. Topics go by their short names."""

    def read(
        self, topic: str, *models: type[Event], partition_key: str | None = None
    ) -> Iterator[Item]:
        """Yield events of some types, tombstones and barriers, partition by partition, to the end.

        With a partition key: of the partition in which its records are.

        Raises
        ------
        JobsLogError
            The broker does not answer, or a record is of a version that this build does not know.
        """

    def backwards(
        self, topic: str, *models: type[Event], partition_key: str
    ) -> Iterator[Sequence[Item]]:
        """Yield a partition from its end to its beginning, in stretches that are in order.

        Raises
        ------
        JobsLogError
            As :meth:`read`.
        """

    def follow(self, watches: Iterable[Watch]) -> Generator[Item | None, None, None]:
        """Yield what comes behind what was read of partitions, without an end; close it.

        None now and then, while nothing comes. A partition that was not read is followed from its
        end on, one that was written to from behind the last record written.

        Raises
        ------
        JobsLogError
            As :meth:`read`.
        """

    def write(self, event: Event, event_id: str, source: str) -> Place:
        """Write an event into the partition of its key; returned when it is acknowledged.

        Raises
        ------
        JobsLogError
            It was not acknowledged. It may be in the log all the same.
        """
