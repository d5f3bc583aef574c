"""Waiting with a bound: for conditions, and for the barriers that readers see."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition

from walras_contracts.topics import Topic
from walras_runtime.kafka.log_reading import plain_consumer
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Record

PATIENCE_S: Final = 60.0
"""Upper bound of every wait; far above what is needed."""
POLL_S: Final = 0.01
FETCH_MS: Final = 50


class ChaosError(RuntimeError):
    """The run cannot go on: something did not come in time, or a worker broke."""

    code = "chaos_failed"
    retriable = False


async def eventually(condition: Callable[[], bool], what: str, look: Callable[[], None]) -> None:
    """Poll until a condition holds, calling ``look`` meanwhile.

    Raises
    ------
    ChaosError
        It does not hold in time.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        look()
        if time.monotonic() > deadline:
            raise ChaosError(f"waited {PATIENCE_S:.0f} s for {what}")
        await asyncio.sleep(POLL_S)


class Watch:
    """The last barrier that a read_committed reader has seen of each partition of some topics."""

    def __init__(self, consumer: AIOKafkaConsumer, topics: Sequence[Topic]) -> None:
        self.following: asyncio.Task[None] | None = None
        self._consumer = consumer
        self._names = {topic.full_name: topic.name for topic in topics}
        self._seen = {(t.name, p): -1 for t in topics for p in range(t.partitions)}
        places = [TopicPartition(t.full_name, p) for t in topics for p in range(t.partitions)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)

    def look(self) -> None:
        """Check that the reader reads.

        Raises
        ------
        KafkaError
            It broke.
        """
        if self.following is not None and self.following.done():
            self.following.result()

    def reached(self, topic: str, partitions: Iterable[int]) -> int:
        """Return the last barrier that all of some partitions show; -1: none.

        Raises
        ------
        KafkaError
            The reader broke.
        """
        self.look()
        return min(self._seen[topic, partition] for partition in partitions)

    def take(self, record: Record) -> None:
        """Take a record that is no barrier: here nothing is made of it."""

    async def follow(self) -> None:
        """Read for ever."""
        while True:
            for tp, messages in (await self._consumer.getmany(timeout_ms=FETCH_MS)).items():
                name = self._names[tp.topic]
                for message in messages:
                    item = parse_message(message, name)
                    if isinstance(item, BarrierMark):
                        place = name, tp.partition
                        self._seen[place] = max(self._seen[place], item.barrier.number)
                    else:
                        self.take(item)


W = TypeVar("W", bound=Watch)


@asynccontextmanager
async def watching(bootstrap: str, watch_of: Callable[[AIOKafkaConsumer], W]) -> AsyncIterator[W]:
    """Follow what a watch is of for as long as the context lasts."""
    async with plain_consumer(bootstrap) as consumer:
        watch = watch_of(consumer)
        watch.following = following = asyncio.create_task(watch.follow())
        try:
            yield watch
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
