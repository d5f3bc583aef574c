"""Partitions of a broker's log, one after the other, each up to where it ended."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition

from walras_runtime.cancelling import heeded
from walras_runtime.errors import BrokerUnavailableError
from walras_runtime.kafka.log_reading import STALL_S, plain_consumer

T = TypeVar("T")
POLL_MS: Final = 100
FETCH_WAIT_MS: Final = 10
"""So long a broker holds an answer back that would be empty. The next partition's turn comes only
then: with the client's 500 ms, many small partitions would take half a minute."""


def partition_consumer(bootstrap: str) -> AbstractAsyncContextManager[AIOKafkaConsumer]:
    """Open a consumer of committed records, for :func:`partition_batches`."""
    return plain_consumer(bootstrap, fetch_max_wait_ms=FETCH_WAIT_MS)


async def partition_batches(
    consumer: AIOKafkaConsumer, tp: TopicPartition, begin: int, end: int, most_records: int
) -> AsyncGenerator[tuple[list[Any], int], None]:
    """Yield batches of a partition from ``begin`` up to, not including, ``end``.

    With each comes how many offsets it leads on; one may hold nothing but what is not to be seen.
    Whoever takes the batches may need any time for them: only the broker's silence counts.

    Raises
    ------
    BrokerUnavailableError
        Nothing arrived for a long time although there is more to read.
    """
    consumer.assign([tp])
    consumer.seek(tp, begin)
    clock = asyncio.get_running_loop().time
    position = begin
    while position < end:
        since = clock()
        while True:
            batches = await consumer.getmany(tp, timeout_ms=POLL_MS, max_records=most_records)
            now = min(await consumer.position(tp), end)
            if now > position:
                break
            if clock() - since > STALL_S:
                raise BrokerUnavailableError(f"no progress reading {tp.topic}")
        yield [message for message in batches.get(tp, ()) if message.offset < end], now - position
        position = now


def pulled(runner: asyncio.Runner, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield what an asynchronous generator gives, to somebody who does not await; then close it."""
    try:
        while True:
            try:
                item = runner.run(heeded(anext(items)))
            except StopAsyncIteration:
                return
            yield item
    finally:
        runner.run(items.aclose())
