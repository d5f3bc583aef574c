"""Writing many records at once: batches per partition, inside or outside a transaction."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaProducer

from walras_runtime.cancelling import heeded
from walras_runtime.errors import InvariantBrokenError, ProducerFailedError
from walras_runtime.kafka.wire import Headers

BATCH_BYTES = 1_000_000
"""The largest batch; the client's default of 16 KB would refuse to take more records silently."""
RETRY_BACKOFF_MS = 20
"""How soon a transaction's request is tried again while the previous one is still ending."""

Row = tuple[bytes, bytes | None, Headers]
Batches = list[tuple[str, int, Any]]
T = TypeVar("T")


def make_producer(
    bootstrap: str, *, transactional_id: str | None = None, transaction_timeout_ms: int = 15_000
) -> AIOKafkaProducer:
    """Return a producer that is not started: idempotent, and transactional where it has an id."""
    options: dict[str, Any] = {}
    if transactional_id is not None:
        options["transactional_id"] = transactional_id
        options["transaction_timeout_ms"] = transaction_timeout_ms
    return AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        acks="all",
        max_batch_size=BATCH_BYTES,
        retry_backoff_ms=RETRY_BACKOFF_MS,
        linger_ms=0,
        **options,
    )


def pack_rows(producer: AIOKafkaProducer, rows: Mapping[tuple[str, int], Sequence[Row]]) -> Batches:
    """Pack the rows of each (topic, partition) into batches, in order.

    Raises
    ------
    InvariantBrokenError
        A single record is larger than a batch: the broker would refuse it for ever.
    """
    batches: Batches = []
    for (topic, partition), items in rows.items():
        batch = producer.create_batch()
        for key, value, headers in items:
            packed = batch.append(key=key, value=value, timestamp=None, headers=headers)
            if packed is None:
                # The batch is full: without this check the record would be lost silently.
                batches.append((topic, partition, batch))
                batch = producer.create_batch()
                packed = batch.append(key=key, value=value, timestamp=None, headers=headers)
            if packed.size > BATCH_BYTES:
                # The first record of a batch is taken whatever its size.
                raise InvariantBrokenError(f"{topic}: a record of {packed.size} bytes: {key!r}")
        if batch.record_count():
            batches.append((topic, partition, batch))
    return batches


async def answered(call: Awaitable[T]) -> T:
    """Await a call of a producer, whose answer is an AssertionError once its id was fenced.

    An AssertionError of anything else is a mistake of our own; so none is caught elsewhere. A
    producer that is stopped keeps a cancellation of its caller to itself; here it comes out.

    Raises
    ------
    ProducerFailedError
        The producer takes no more calls.
    """
    try:
        return await heeded(call)
    except AssertionError as error:
        raise ProducerFailedError(f"it takes no more calls: {error!r}") from error


async def send_batches(producer: AIOKafkaProducer, batches: Batches) -> list[asyncio.Future[Any]]:
    """Send batches in order; return their futures."""
    return [
        await producer.send_batch(batch, topic, partition=partition)
        for topic, partition, batch in batches
    ]


async def send_rows(
    producer: AIOKafkaProducer, rows: Mapping[tuple[str, int], Sequence[Row]]
) -> list[asyncio.Future[Any]]:
    """Send the rows of each (topic, partition) in order; return the futures of the batches.

    Raises
    ------
    InvariantBrokenError
        As :func:`pack_rows`, before anything is sent.
    """
    return await send_batches(producer, pack_rows(producer, rows))
