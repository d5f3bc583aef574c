"""Those who write clearing's inputs, as one writer: intake, capacity, placement, billing.

Like them it writes what belongs to a step and the step's barrier in one transaction, so that a
reader sees both at once and nobody can work ahead.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from time import perf_counter

from aiokafka import AIOKafkaProducer

from tests.performance.outside import Rows
from walras_contracts.identifiers import partition_of
from walras_contracts.topics import Topic
from walras_runtime.kafka.producing import make_producer, pack_rows, send_batches
from walras_runtime.kafka.step_rows import barrier_row
from walras_runtime.kafka.wire import barrier_headers, event_headers
from walras_runtime.records import Barrier, Output

INPUTS = (
    *("queue", "supply", "accounts", "job.status", "placement.figures"),
    *("balances", "budgets"),
)
SOURCE = b"walras/fleet"
TRANSACTION_TIMEOUT_MS = 60_000

_partition_of = cache(partition_of)


class Roles:
    """Writes steps of clearing's inputs."""

    def __init__(self, producer: AIOKafkaProducer, topics: Mapping[str, Topic]) -> None:
        self._producer = producer
        self._topics = topics
        self._written = 0

    def rows(self, outputs: Iterable[Output]) -> Rows:
        """Return the rows of a step, without its barrier."""
        rows: Rows = {}
        for output in outputs:
            topic = self._topics[output.topic]
            partition = _partition_of(output.partition_key, topic.partitions)
            headers = event_headers(f"fleet/{self._written}", SOURCE, output.type)
            self._written += 1
            rows.setdefault((topic.full_name, partition), []).append(
                (output.key.encode(), output.payload, headers)
            )
        return rows

    async def write(self, rows: Rows, barrier: Barrier) -> float:
        """Write a step; return when the broker had acknowledged its last barrier.

        That is before the commit was asked for, and so before anybody could read it: a reading of
        `time.perf_counter`.
        """
        headers = barrier_headers(1)
        for name in INPUTS:
            topic = self._topics[name]
            for partition in range(topic.partitions):
                mark = barrier_row(barrier, topic, headers)
                rows.setdefault((topic.full_name, partition), []).append(mark)
        batches = pack_rows(self._producer, rows)
        await self._producer.begin_transaction()
        await asyncio.gather(*await send_batches(self._producer, batches))
        acknowledged = perf_counter()
        await self._producer.commit_transaction()
        return acknowledged


@asynccontextmanager
async def roles(bootstrap: str, topics: Mapping[str, Topic]) -> AsyncIterator[Roles]:
    """Open the writer."""
    producer = make_producer(
        bootstrap,
        transactional_id="walras.fleet",
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )
    await producer.start()
    try:
        yield Roles(producer, topics)
    finally:
        await producer.stop()
