"""Opening Kafka clients so that they are closed in the end, even where starting failed.

A client that could not start holds connections and tasks of its own all the same; one that is left
to the garbage collector warns at some later time, in the middle of something else.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

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
        if isinstance(client, AIOKafkaAdminClient):
            await client.close()
        else:
            await client.stop()
