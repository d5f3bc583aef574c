"""Writes what finance asks of an invoice into the log."""

import asyncio
from typing import Final

from aiokafka.errors import KafkaError

from walras.billing_log.errors import BillingLogError
from walras_contracts.identifiers import partition_of
from walras_contracts.invoices import InvoiceRequested
from walras_contracts.topics import load_topics
from walras_runtime.clock import incarnation
from walras_runtime.errors import BrokerUnavailableError
from walras_runtime.kafka.opening import opened
from walras_runtime.kafka.producing import make_producer, send_rows
from walras_runtime.kafka.topics_admin import partition_counts
from walras_runtime.kafka.wire import event_headers

SOURCE: Final = b"walras/finance"
WRITE_TIMEOUT_S: Final = 30.0


def write_request(bootstrap: str, request: InvoiceRequested) -> None:
    """Write a request; returned when the broker has acknowledged it.

    Raises
    ------
    BillingLogError
        The broker does not answer, or has no such topic.
    """
    try:
        asyncio.run(_write(bootstrap, request))
    except (KafkaError, BrokerUnavailableError, OSError, TimeoutError) as error:
        raise BillingLogError(f"the broker {bootstrap} did not take it: {error}") from error


async def _write(bootstrap: str, request: InvoiceRequested) -> None:
    name = load_topics()[request.TOPIC].full_name
    counts = await partition_counts(bootstrap, [name])
    if name not in counts:
        raise BillingLogError(f"the broker {bootstrap} has no topic {name}")
    partition = partition_of(request.partition_key(), counts[name])
    # Asking again is as good as once, but it is another event.
    headers = event_headers(f"walras/finance/{incarnation()}", SOURCE, request.TYPE)
    row = (request.record_key().encode(), request.payload(), headers)
    async with opened(make_producer(bootstrap)) as producer:
        futures = await send_rows(producer, {(name, partition): [row]})
        await asyncio.wait_for(asyncio.gather(*futures), WRITE_TIMEOUT_S)
