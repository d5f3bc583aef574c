"""Reading a stretch of the log: to its end, or up to given offsets."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from walras_runtime.errors import BrokerUnavailableError
from walras_runtime.kafka import tolerant_records
from walras_runtime.kafka.opening import opened

tolerant_records.install()

RETRY_BACKOFF_MS = 20
"""The client waits so long after it first heard of a topic; its default of 100 ms, for each topic
that a stage reads, would be half of the time that a takeover needs."""
SETTLING_POLL_S = 0.02
STALL_S = 30.0
"""No progress for so long while reading means that the broker is gone, not that it is slow."""


@asynccontextmanager
async def plain_consumer(bootstrap: str, **options: Any) -> AsyncIterator[AIOKafkaConsumer]:
    """Open a consumer without a group, for manual assignment; read_committed unless told."""
    settings: dict[str, Any] = {
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "retry_backoff_ms": RETRY_BACKOFF_MS,
        **options,
    }
    async with opened(AIOKafkaConsumer(bootstrap_servers=bootstrap, **settings)) as consumer:
        yield consumer


async def read_until(
    consumer: AIOKafkaConsumer,
    start: Mapping[TopicPartition, int],
    until: Mapping[TopicPartition, int],
) -> AsyncIterator[tuple[TopicPartition, list[Any]]]:
    """Yield the messages of each partition from ``start`` up to, not including, ``until``.

    Raises
    ------
    BrokerUnavailableError
        Nothing arrived for a long time although there is more to read.
    """
    consumer.assign(list(until))
    for tp, offset in start.items():
        consumer.seek(tp, offset)
    open_partitions = {tp for tp, end in until.items() if start[tp] < end}
    consumer.pause(*(tp for tp in until if tp not in open_partitions))
    clock = asyncio.get_running_loop().time
    progress = clock()
    while open_partitions:
        batches = await consumer.getmany(*open_partitions, timeout_ms=100, max_records=10_000)
        for tp, messages in batches.items():
            progress = clock()
            yield tp, [m for m in messages if m.offset < until[tp]]
        for tp in sorted(open_partitions):
            if await consumer.position(tp) >= until[tp]:
                open_partitions.discard(tp)
                consumer.pause(tp)
        if clock() - progress > STALL_S:
            raise BrokerUnavailableError(f"no progress reading {sorted(open_partitions)}")


async def ends(
    consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the last stable offset of each partition."""
    offsets: dict[TopicPartition, int] = await consumer.end_offsets(list(partitions))
    return offsets


async def read_all(bootstrap: str, topic: str, partitions: Iterable[int]) -> list[Any]:
    """Return all committed messages of a topic's partitions, partition by partition."""
    async with plain_consumer(bootstrap) as consumer:
        return await read_all_with(consumer, topic, partitions)


async def read_all_with(
    consumer: AIOKafkaConsumer, topic: str, partitions: Iterable[int]
) -> list[Any]:
    """Return what :func:`read_all` returns, by a consumer that is open already."""
    found: dict[int, list[Any]] = {}
    tps = [TopicPartition(topic, partition) for partition in partitions]
    beginnings = await consumer.beginning_offsets(tps)
    async for tp, messages in read_until(consumer, beginnings, await ends(consumer, tps)):
        found.setdefault(tp.partition, []).extend(messages)
    return [message for partition in sorted(found) for message in found[partition]]


async def wait_until_settled(
    bootstrap: str, consumer: AIOKafkaConsumer, tp: TopicPartition, *, within_s: float
) -> None:
    """Wait until a read_committed reader sees all that is in a partition now, or its abortion.

    Such a reader sees nothing from behind the beginning of an open transaction, whosever it is:
    what was committed behind it would be missed.

    Raises
    ------
    BrokerUnavailableError
        A transaction stayed open for longer than that.
    """
    async with plain_consumer(bootstrap, isolation_level="read_uncommitted") as everything:
        end = (await ends(everything, [tp]))[tp]
    clock = asyncio.get_running_loop().time
    deadline = clock() + within_s
    while (await ends(consumer, [tp]))[tp] < end:
        if clock() > deadline:
            raise BrokerUnavailableError(f"{tp.topic}/{tp.partition}: a transaction stays open")
        await asyncio.sleep(SETTLING_POLL_S)
