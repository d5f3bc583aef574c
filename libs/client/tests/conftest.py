"""A stand-in for the deciding services: writes what they would, barrier by barrier."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.topics import load_topics
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import barrier_headers, barrier_value, event_headers
from walras_runtime.records import Barrier

WRITTEN = ("accounts", "supply", "quotas", "cycles", "ticks")


class Decider:
    """One transactional writer of all decided topics."""

    def __init__(self, bootstrap: str, epoch: int) -> None:
        self.epoch = epoch
        self.topics = {name: load_topics()[name] for name in WRITTEN}
        self.producer = make_producer(bootstrap, transactional_id=f"decider-{epoch}")

    async def step(self, number: int, events: Sequence[Event], *, only: str | None = None) -> None:
        """Write the events of a step, and its barrier into all topics or into one."""
        rows: dict[tuple[str, int], list[Row]] = {}
        for event in events:
            topic = self.topics[event.TOPIC]
            partition = partition_of(event.partition_key(), topic.partitions)
            rows.setdefault((topic.full_name, partition), []).append(
                (
                    event.record_key().encode(),
                    event.payload(),
                    event_headers(f"test/{number}", b"test", event.TYPE),
                )
            )
        barrier = Barrier(number, number * 60_000)
        mark: Row = (barrier.key().encode(), barrier_value(barrier), barrier_headers(self.epoch))
        for topic in self.topics.values():
            if only not in {None, topic.name}:
                continue
            for partition in range(topic.partitions):
                rows.setdefault((topic.full_name, partition), []).append(mark)
        await self.producer.begin_transaction()
        await send_rows(self.producer, rows)
        await self.producer.commit_transaction()


OpenDecider = Callable[..., AbstractAsyncContextManager[Decider]]


@pytest.fixture
def open_decider() -> OpenDecider:
    """Create the topics where they are missing and open a writer."""

    @asynccontextmanager
    async def opened(bootstrap: str, epoch: int = 1) -> AsyncIterator[Decider]:
        decider = Decider(bootstrap, epoch)
        await create_topics(bootstrap, decider.topics)
        await decider.producer.start()
        try:
            yield decider
        finally:
            await decider.producer.stop()

    return opened
