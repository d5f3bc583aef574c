"""The log around one agent: writes what placement and drain write, and sees what the agent tells.

A record is written as they write it, with the next barrier in one transaction, and read as they
read it, committed.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.performance.agent_process import NODE
from tests.performance.outside import SOURCE, BenchError
from walras_contracts.capacity import NodeHealthReported
from walras_contracts.drains import DrainCommanded
from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.registry import decode_inner
from walras_contracts.topics import Topic, load_topics
from walras_contracts.work import (
    DrainStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
    UsageMetered,
)
from walras_runtime.kafka.log_reading import plain_consumer
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import (
    BarrierMark,
    barrier_headers,
    barrier_value,
    event_headers,
    parse_message,
)
from walras_runtime.records import Barrier, Output

TOLD: Final = (LeaseStatusChanged, DrainStatusChanged, UsageMetered, NodeHealthReported)
BARRIER_MS: Final = 5_000
STALL_S: Final = 120.0
POLL_MS: Final = 20


class AgentLog:
    """What the agent is told, and what it tells, with the instant in which that was seen."""

    def __init__(
        self,
        producer: AIOKafkaProducer,
        consumer: AIOKafkaConsumer,
        topics: dict[str, Topic],
        look: Callable[[], None],
    ) -> None:
        self.told: list[tuple[float, Event]] = []
        """With the reading of ``time.perf_counter`` when it was seen, in order of each topic."""
        self._producer = producer
        self._consumer = consumer
        self._topics = topics
        self._look = look
        self._barrier = 0
        self._names = {topics[model.TOPIC].full_name: model.TOPIC for model in TOLD}
        places = [
            TopicPartition(topics[model.TOPIC].full_name, partition)
            for model in TOLD
            for partition in range(topics[model.TOPIC].partitions)
        ]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)

    async def write(self, outputs: Iterable[Output]) -> float:
        """Write records and the next barrier of their topics; return when that was committed."""
        rows: dict[tuple[str, int], list[Row]] = {}
        for number, output in enumerate(outputs):
            topic = self._topics[output.topic]
            place = (topic.full_name, partition_of(output.partition_key, topic.partitions))
            headers = event_headers(f"bench/{self._barrier}/{number}", SOURCE, output.type)
            rows.setdefault(place, []).append((output.key.encode(), output.payload, headers))
        barrier = Barrier(self._barrier, self._barrier * BARRIER_MS)
        self._barrier += 1
        key = barrier.key(cyclic=True).encode()
        mark: Row = (key, barrier_value(barrier), barrier_headers(1))
        for name in (LeaseGranted.TOPIC, DrainCommanded.TOPIC):
            for partition in range(self._topics[name].partitions):
                rows.setdefault((self._topics[name].full_name, partition), []).append(mark)
        await self._producer.begin_transaction()
        await send_rows(self._producer, rows)
        await self._producer.commit_transaction()
        return time.perf_counter()

    async def read(self) -> None:
        """Take what the agent told since the last call; wait a moment where that is nothing."""
        for place, messages in (await self._consumer.getmany(timeout_ms=POLL_MS)).items():
            seen = time.perf_counter()
            for message in messages:
                parsed = parse_message(message, self._names[place.topic])
                if not isinstance(parsed, BarrierMark) and parsed.value is not None:
                    self.told.append((seen, decode_inner(parsed.type, parsed.value)))
        self._look()

    async def until(self, there: Callable[[], bool], what: str) -> None:
        """Read until something is there.

        Raises
        ------
        BenchError
            Nothing was told for long, or the agent ended.
        """
        moved, count = time.perf_counter(), len(self.told)
        while not there():
            await self.read()
            if len(self.told) > count:
                moved, count = time.perf_counter(), len(self.told)
            if time.perf_counter() - moved > STALL_S:
                raise BenchError(f"the agent of {NODE} tells nothing any more; missing: {what}")

    async def read_for(self, duration_s: float) -> None:
        """Read for a while."""
        end = time.perf_counter() + duration_s
        while time.perf_counter() < end:
            await self.read()


@asynccontextmanager
async def agent_log(bootstrap: str, look: Callable[[], None]) -> AsyncIterator[AgentLog]:
    """Open the log, which has its topics then.

    Parameters
    ----------
    bootstrap
        The broker.
    look
        Called while waiting; raises where that makes no sense any more.
    """
    topics = load_topics()
    await create_topics(bootstrap, topics)
    async with AsyncExitStack() as stack:
        producer = make_producer(bootstrap, transactional_id="walras.bench")
        await producer.start()
        stack.push_async_callback(producer.stop)
        consumer = await stack.enter_async_context(plain_consumer(bootstrap))
        yield AgentLog(producer, consumer, topics, look)
