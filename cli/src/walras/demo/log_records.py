"""The log of a run, as the report reads it: committed records, streamed topic by topic."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from typing import Any

from aiokafka import TopicPartition

from walras.log_partitions import pulled
from walras.report.records import LogRecord
from walras_contracts.topics import Topic
from walras_runtime.kafka.log_reading import ends, plain_consumer, read_until
from walras_runtime.records import BARRIER_KEY_PREFIX, BARRIER_TYPE


def stream_topic(bootstrap: str, topic: Topic) -> Iterator[LogRecord]:
    """Yield all committed records of a topic, barriers included, each partition in offset order.

    Holds a batch at a time, so that a topic of any size can be read. Runs an event loop of its own:
    call it from a thread that has none.
    """
    with (
        asyncio.Runner() as runner,
        closing(pulled(runner, _batches(bootstrap, topic))) as batches,
    ):
        for messages in batches:
            for message in messages:
                yield _log_record(topic, message)


async def _batches(bootstrap: str, topic: Topic) -> AsyncGenerator[list[Any], None]:
    async with plain_consumer(bootstrap) as consumer:
        tps = [TopicPartition(topic.full_name, p) for p in range(topic.partitions)]
        begin = await consumer.beginning_offsets(tps)
        async for _, messages in read_until(consumer, begin, await ends(consumer, tps)):
            yield messages


def _log_record(topic: Topic, message: Any) -> LogRecord:
    headers = dict(message.headers)
    key = (message.key or b"").decode("utf-8", "replace")
    barrier = key.startswith(BARRIER_KEY_PREFIX)
    kind = BARRIER_TYPE if barrier else headers.get("ce_type", b"").decode()
    return LogRecord(
        topic.name,
        message.partition,
        message.offset,
        message.timestamp,
        key,
        kind,
        message.value,
        headers if barrier else {},
    )
