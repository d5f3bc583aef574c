"""Opening Kafka clients so that they are closed in the end, even where starting failed.

A client that could not start holds connections and tasks of its own all the same; one that is left
to the garbage collector warns at some later time, in the middle of something else.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from walras_runtime.cancelling import heeded

Client = TypeVar("Client", AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaAdminClient)


@asynccontextmanager
async def opened(client: Client) -> AsyncIterator[Client]:
    """Start a client, and close it in the end, whatever happened.

    Raises
    ------
    KafkaError
        The client could not start.
    """
    try:
        await client.start()
        yield client
    finally:
        await _close(client)


async def _close(client: AIOKafkaConsumer | AIOKafkaProducer | AIOKafkaAdminClient) -> None:
    """Close a client wholly.

    A consumer that waits to fetch again lets the cancellation of that fetch out of ``stop``
    (aiokafka 0.14) and leaves its connections open. Taken for a cancellation of the caller, it
    would end a stage without an error where its broker is away. A producer keeps the cancellation
    of its caller to itself.
    """
    if isinstance(client, AIOKafkaAdminClient):
        await heeded(client.close())
        return
    try:
        await heeded(client.stop())
    except asyncio.CancelledError:
        if isinstance(client, AIOKafkaConsumer):
            await _close_the_rest(client)
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise


async def _close_the_rest(consumer: AIOKafkaConsumer) -> None:
    # What `stop` would have closed next has no public name.
    fetches = [*consumer._fetcher._pending_tasks]  # noqa: SLF001
    for fetch in fetches:
        fetch.cancel()
    await asyncio.gather(*fetches, return_exceptions=True)
    await consumer._client.close()  # noqa: SLF001
