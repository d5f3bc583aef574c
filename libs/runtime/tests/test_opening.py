"""Clients that cannot start are closed all the same."""

import asyncio
import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.consumer.fetcher import Fetcher
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


def _waiting_to_fetch(monkeypatch: pytest.MonkeyPatch) -> tuple[AIOKafkaConsumer, list[str]]:
    """Return a consumer in the state in which its broker went away, and what is closed of it."""
    consumer, closed = AIOKafkaConsumer(bootstrap_servers=NOWHERE), list[str]()

    async def start() -> None:
        consumer._fetcher = Fetcher.__new__(Fetcher)
        loop = asyncio.get_running_loop()
        consumer._fetcher._fetch_task = loop.create_task(asyncio.Event().wait())
        consumer._fetcher._fetch_waiters = set()
        consumer._fetcher._pending_tasks = {
            loop.create_task(asyncio.Event().wait()) for _ in range(2)
        }
        await asyncio.sleep(0)

    async def close() -> None:
        closed.append("connections")

    monkeypatch.setattr(consumer, "start", start)
    monkeypatch.setattr(consumer._client, "close", close)
    return consumer, closed


@pytest.mark.asyncio
async def test_a_consumer_that_waits_to_fetch_again_is_closed_and_its_error_comes_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer, closed = _waiting_to_fetch(monkeypatch)
    fetches: list[asyncio.Task[None]] = []

    async def fail() -> None:
        async with opened(consumer):
            fetches.extend(consumer._fetcher._pending_tasks)
            raise KafkaError("the broker is away")

    with pytest.raises(KafkaError, match="the broker is away"):
        await fail()
    assert closed == ["connections"]
    assert [fetch.cancelled() for fetch in fetches] == [True, True]


@pytest.mark.asyncio
async def test_a_stage_that_is_cancelled_while_it_closes_stays_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer, closed = _waiting_to_fetch(monkeypatch)
    is_open = asyncio.Event()

    async def use() -> None:
        async with opened(consumer):
            is_open.set()
            await asyncio.Event().wait()

    task = asyncio.get_running_loop().create_task(use())
    await is_open.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == ["connections"]


@pytest.mark.asyncio
async def test_a_client_that_is_only_started_is_found_unclosed() -> None:
    """Canary of this file."""

    class Started:
        async def __aenter__(self) -> None:
            await AIOKafkaConsumer(bootstrap_servers=NOWHERE).start()

        async def __aexit__(self, *_: object) -> None:
            raise AssertionError("it cannot have started")

    assert await unclosed(Started)
