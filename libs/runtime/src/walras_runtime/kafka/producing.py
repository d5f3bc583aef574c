"""Writing many records at once: batches per partition, inside or outside a transaction."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer

from walras_runtime.errors import InvariantBrokenError
from walras_runtime.kafka.wire import Headers

BATCH_BYTES = 1_000_000
"""The largest batch; the client's default of 16 KB would refuse to take more records silently."""
RETRY_BACKOFF_MS = 20
"""How soon a transaction's request is tried again while the previous one is still ending."""

Row = tuple[bytes, bytes | None, Headers]


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


async def send_rows(
    producer: AIOKafkaProducer, rows: Mapping[tuple[str, int], Sequence[Row]]
) -> list[asyncio.Future[Any]]:
    """Send the rows of each (topic, partition) in order; return the futures of the batches.

    Raises
    ------
    InvariantBrokenError
        A single record is larger than a batch.
    """
    futures: list[asyncio.Future[Any]] = []
    for (topic, partition), items in rows.items():
        batch = producer.create_batch()
        for key, value, headers in items:
            if batch.append(key=key, value=value, timestamp=None, headers=headers) is not None:
                continue
            # The batch is full: without this check the record would be lost silently.
            futures.append(await producer.send_batch(batch, topic, partition=partition))
            batch = producer.create_batch()
            if batch.append(key=key, value=value, timestamp=None, headers=headers) is None:
                raise InvariantBrokenError(f"{topic}: a record of {len(value or b'')} bytes")
        if batch.record_count():
            futures.append(await producer.send_batch(batch, topic, partition=partition))
    return futures
