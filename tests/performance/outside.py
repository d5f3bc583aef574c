"""The outside of the services that are measured: writes events and barriers, waits for commits."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from walras.processes import Supervisor
from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.topics import Topic
from walras_runtime.kafka.log_reading import plain_consumer
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.wire import (
    BarrierMark,
    barrier_headers,
    barrier_value,
    event_headers,
    parse_message,
)
from walras_runtime.records import BARRIER_KEY_PREFIX, Barrier

STALL_S = 120.0
"""No commit for so long means that something is broken, not slow."""
SOURCE = b"walras/bench"
BARRIER_START = BARRIER_KEY_PREFIX.encode()
"""What the watch looks for; parsing all else would take a part of the time that is measured."""
Rows = dict[tuple[str, int], list[Row]]


class BenchError(RuntimeError):
    """The run is not worth a figure: a service ended, stalled, or did not do its work."""

    code = "bench_failed"
    retriable = False


class Outside:
    """Writes in order; every call returns when the broker has acknowledged all."""

    def __init__(self, producer: AIOKafkaProducer, topics: Mapping[str, Topic]) -> None:
        self._producer = producer
        self._topics = topics
        self._written = 0

    async def events(self, events: Iterable[Event]) -> None:
        """Write events."""
        await self.write(self.event_rows(events))

    async def barrier(self, barrier: Barrier, names: Iterable[str]) -> None:
        """Write a barrier into all partitions of some topics."""
        await self.write(self.barrier_rows(barrier, names))

    async def write(self, rows: Rows) -> None:
        """Write rows as :meth:`event_rows` and :meth:`barrier_rows` make them."""
        await asyncio.gather(*await send_rows(self._producer, rows))

    def event_rows(self, events: Iterable[Event]) -> Rows:
        """Return the rows of events, each with an id that no other event has."""
        rows: Rows = {}
        for event in events:
            topic = self._topics[event.TOPIC]
            partition = partition_of(event.partition_key(), topic.partitions)
            headers = event_headers(f"bench/{self._written}", SOURCE, event.TYPE)
            self._written += 1
            rows.setdefault((topic.full_name, partition), []).append(
                (event.record_key().encode(), event.payload(), headers)
            )
        return rows

    def barrier_rows(self, barrier: Barrier, names: Iterable[str]) -> Rows:
        """Return the rows of a barrier for all partitions of some topics."""
        row: Row = (barrier.key().encode(), barrier_value(barrier), barrier_headers(1))
        topics = [self._topics[name] for name in names]
        return {(t.full_name, p): [row] for t in topics for p in range(t.partitions)}


@asynccontextmanager
async def outside(bootstrap: str, topics: Mapping[str, Topic]) -> AsyncIterator[Outside]:
    """Open a writer."""
    producer = make_producer(bootstrap)
    await producer.start()
    try:
        yield Outside(producer, topics)
    finally:
        await producer.stop()


class CommitWatch:
    """Sees, read_committed, when a barrier shows in all partitions of topics.

    Parameters
    ----------
    consumer
        Assigned to nothing else.
    topics
        What to watch.
    look
        Called while waiting; raises where waiting makes no sense any more.
    """

    def __init__(
        self, consumer: AIOKafkaConsumer, topics: Sequence[Topic], look: Callable[[], None]
    ) -> None:
        self._consumer = consumer
        self._look = look
        self._names = {topic.full_name: topic.name for topic in topics}
        self._seen = {
            TopicPartition(topic.full_name, p): -1
            for topic in topics
            for p in range(topic.partitions)
        }
        consumer.assign(list(self._seen))
        for tp in self._seen:
            consumer.seek(tp, 0)

    async def wait(self, number: int) -> dict[str, float]:
        """Wait for barrier ``number``; return by topic when it was seen in all partitions.

        Returns
        -------
        dict
            Readings of ``time.perf_counter``, by short name of the topic.

        Raises
        ------
        BenchError
            Nothing came for a long time.
        """
        times: dict[str, float] = {}
        moved = time.perf_counter()
        while len(times) < len(self._names):
            batches = await self._consumer.getmany(timeout_ms=200)
            now = time.perf_counter()
            for tp, messages in batches.items():
                moved = now
                for message in messages:
                    if not message.key.startswith(BARRIER_START):
                        continue
                    item = parse_message(message, self._names[tp.topic])
                    if isinstance(item, BarrierMark):
                        self._seen[tp] = item.barrier.number
            for full_name, name in self._names.items():
                if name not in times and self._reached(full_name) >= number:
                    times[name] = now
            self._look()
            if now - moved > STALL_S:
                raise BenchError(f"barrier {number} did not come: {self._seen}")
        return times

    def _reached(self, full_name: str) -> int:
        return min(seen for tp, seen in self._seen.items() if tp.topic == full_name)


@asynccontextmanager
async def commit_watch(
    bootstrap: str, topics: Sequence[Topic], look: Callable[[], None]
) -> AsyncIterator[CommitWatch]:
    """Open a watch."""
    async with plain_consumer(bootstrap) as consumer:
        yield CommitWatch(consumer, topics, look)


def looker(supervisor: Supervisor) -> Callable[[], None]:
    """Return a check that no service has ended: a restart would be in the figures."""

    def look() -> None:
        supervisor.look()
        if supervisor.exits:
            name, code = supervisor.exits[0]
            raise BenchError(f"{name} ended with {code}:\n{supervisor.tail(name)}")

    return look
