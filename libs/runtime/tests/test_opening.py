"""Clients that cannot start are closed all the same."""

import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from walras_contracts.topics import load_topics
from walras_runtime.kafka.barriers import BarrierWriter
from walras_runtime.kafka.election import campaign
from walras_runtime.kafka.log_reading import plain_consumer
from walras_runtime.kafka.opening import opened

NOWHERE = "127.0.0.1:1"
OPENED: dict[str, Callable[[], Any]] = {
    "consumer": lambda: opened(AIOKafkaConsumer(bootstrap_servers=NOWHERE)),
    "producer": lambda: opened(AIOKafkaProducer(bootstrap_servers=NOWHERE)),
    "admin": lambda: opened(AIOKafkaAdminClient(bootstrap_servers=NOWHERE)),
    "reader": lambda: plain_consumer(NOWHERE),
    "candidate": lambda: campaign(NOWHERE, "walras.claims.v1", "clearing", session_ms=6000),
    "barrier writer": lambda: BarrierWriter(NOWHERE, load_topics()),
}


async def unclosed(attempt: Callable[[], Any]) -> list[str]:
    """What Python warns of once a client that could not start is forgotten."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(KafkaError):
            async with attempt():
                pass
        gc.collect()
    return [str(each.message) for each in caught if each.category is ResourceWarning]


@pytest.mark.asyncio
@pytest.mark.parametrize("attempt", OPENED.values(), ids=OPENED.keys())
async def test_a_client_that_cannot_start_is_closed(attempt: Callable[[], Any]) -> None:
    assert await unclosed(attempt) == []


@pytest.mark.asyncio
async def test_a_client_that_is_only_started_is_found_unclosed() -> None:
    """Canary of this file."""

    class Started:
        async def __aenter__(self) -> None:
            await AIOKafkaConsumer(bootstrap_servers=NOWHERE).start()

        async def __aexit__(self, *_: object) -> None:
            raise AssertionError("it cannot have started")

    assert await unclosed(Started)
