"""The views as a process on a real Kafka: committed records only, the same after every start."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiohttp import ClientError, ClientSession
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from faust.transport.drivers.aiokafka import Transport

from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.market import CycleSummarised, MarketState, PricePublished
from walras_contracts.money import BalancePublished
from walras_contracts.topics import load_topics
from walras_launcher.kafka import KafkaBroker
from walras_runtime.faust.running import run_app
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import barrier_headers, barrier_value, event_headers
from walras_runtime.records import Barrier
from walras_views.settings import Settings
from walras_views.wiring import TOPICS, build

pytestmark = pytest.mark.broker

DEADLINE_S = 60.0
POLL_S = 0.05
NEVER = 666_666
T = TypeVar("T")


def summary(cycle: int, price: int) -> CycleSummarised:
    return CycleSummarised(
        market="gpu",
        cycle=cycle,
        market_time_ms=cycle * 60_000,
        state=MarketState.CLEARED,
        reference_price_micro=price,
        pool_prices=(),
        supply_macc=1000,
        demand_macc=1000,
        allocated_macc=1000,
        opportunistic_macc=0,
        jobs_queued=1,
        jobs_running=1,
        revenue_micro_per_hour=1,
        occupancy_ppm=1_000_000,
    )


def decided(cycle: int, price: int) -> list[Event]:
    return [
        summary(cycle, price),
        PricePublished(
            market="gpu",
            cycle=cycle,
            market_time_ms=cycle * 60_000,
            reference_price_micro=price,
            pools=(),
        ),
        BalancePublished(
            team="a",
            pool="p",
            boundary_ms=cycle * 300_000,
            wallet_micro=price,
            earned_micro=price,
            spent_micro=0,
            credited_micro=0,
            expired_micro=0,
        ),
    ]


async def until(look: Callable[[], Awaitable[T | None]], what: str) -> T:
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while asyncio.get_running_loop().time() < deadline:
        found = await look()
        if found is not None:
            return found
        await asyncio.sleep(POLL_S)
    raise AssertionError(f"never seen: {what}")


@asynccontextmanager
async def producing(bootstrap: str) -> AsyncIterator[AIOKafkaProducer]:
    await create_topics(bootstrap, {name: load_topics()[name] for name in TOPICS})
    producer = make_producer(bootstrap, transactional_id="decider")
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def step(
    producer: AIOKafkaProducer, number: int, events: list[Event], *, commit: bool = True
) -> None:
    """Write the events of a step and its barrier in one transaction; without commit, abort."""
    rows: dict[tuple[str, int], list[Row]] = {}
    for event in events:
        topic = load_topics()[event.TOPIC]
        partition = partition_of(event.partition_key(), topic.partitions)
        headers = event_headers(f"test/{number}", b"test", event.TYPE)
        rows.setdefault((topic.full_name, partition), []).append(
            (event.record_key().encode(), event.payload(), headers)
        )
    barrier = Barrier(number, number * 60_000)
    for name in TOPICS:
        for partition in range(load_topics()[name].partitions):
            rows.setdefault((load_topics()[name].full_name, partition), []).append(
                (barrier.key().encode(), barrier_value(barrier), barrier_headers(1))
            )
    await producer.begin_transaction()
    await send_rows(producer, rows)
    if commit:
        await producer.commit_transaction()
        return
    # On the broker, not only in the client's buffer, when it is aborted.
    await producer.flush()
    await producer.abort_transaction()


class Worker:
    """``python -m walras_views`` and its two ports."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.log = log

    async def port(self, event: str) -> int:
        async def look() -> int | None:
            assert self.process.poll() is None, self.log.read_text("utf-8")
            for line in self.log.read_text("utf-8").splitlines():
                if f'"event": "{event}"' in line:
                    return int(json.loads(line)["port"])
            return None

        return await until(look, event)

    async def get(self, event: str, path: str) -> Any:
        port = await self.port(event)
        async with (
            ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}{path}") as response,
        ):
            return await response.json(content_type=None)

    async def board_at(self, cycle: int) -> Any:
        """Wait until all three topics have arrived at a cycle."""

        async def look() -> Any:
            try:
                found = await self.get("board_served", "/v1/board")
            except ClientError:
                return None
            market = found["markets"].get("gpu")
            if market is None or market["price"] is None or market["latest"] is None:
                return None
            if (market["latest"]["cycle"], market["price"]["cycle"]) != (cycle, cycle):
                return None
            wallet = found["teams"].get("a")
            return found if wallet and wallet["boundary_ms"] == cycle * 300_000 else None

        return await until(look, f"cycle {cycle} on the board")


@contextmanager
def worker(bootstrap: str, directory: Path) -> Iterator[Worker]:
    log = directory / f"views-{len(list(directory.iterdir()))}.log"
    environment = {
        **os.environ,
        "WALRAS_KAFKA_BOOTSTRAP": bootstrap,
        "WALRAS_VIEWS_HTTP_PORT": "0",
        "WALRAS_VIEWS_HEALTH_PORT": "0",
    }
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "walras_views"], env=environment, stderr=stream
        )
    try:
        yield Worker(process, log)
    finally:
        process.kill()
        process.wait()


async def topics_of(bootstrap: str) -> list[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        # The broker's own topic of group offsets comes with any consumer group.
        return sorted(t for t in await admin.list_topics() if not t.startswith("__"))
    finally:
        await admin.close()


def test_what_was_aborted_is_never_shown_and_every_start_gives_the_same_board(
    own_broker: Callable[[], KafkaBroker], tmp_path: Path
) -> None:
    bootstrap = own_broker().bootstrap

    async def run() -> None:
        async with producing(bootstrap) as producer:
            await step(producer, 0, decided(0, 5))
            await step(producer, 1, decided(1, NEVER), commit=False)
            await step(producer, 1, decided(2, 7))
            topics = await topics_of(bootstrap)
            with worker(bootstrap, tmp_path) as first:
                board = await first.board_at(2)
                assert [document["cycle"] for document in board["cycles"]] == [0, 2]
                assert str(NEVER) not in json.dumps(board)
                # The same while it runs: aborted first, then committed on the same partitions.
                await step(producer, 2, decided(3, NEVER), commit=False)
                await step(producer, 2, decided(4, 9))
                board = await first.board_at(4)
                assert [document["cycle"] for document in board["cycles"]] == [0, 2, 4]
                assert str(NEVER) not in json.dumps(board)
                first.process.kill()
            with worker(bootstrap, tmp_path) as second:
                assert await second.board_at(4) == board
                second.process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(second.process.wait, DEADLINE_S) == 0
            assert await topics_of(bootstrap) == topics

    asyncio.run(run())


def test_fausts_own_transport_would_show_what_was_aborted(
    own_broker: Callable[[], KafkaBroker], tmp_path: Path
) -> None:
    bootstrap = own_broker().bootstrap

    async def run() -> None:
        async with producing(bootstrap) as producer:
            await step(producer, 0, decided(0, 5))
            await step(producer, 1, decided(1, NEVER), commit=False)
            await step(producer, 1, decided(2, 7))
        app, tables, _ = build(Settings.read(kafka_bootstrap=bootstrap), tmp_path)
        app.transport = Transport(app.conf.broker_consumer, app)
        stop = asyncio.Event()
        running = asyncio.create_task(run_app(app, stop))

        async def look() -> Any:
            return tables.cycles.get(("gpu", 1))

        aborted = await until(look, "the aborted cycle")
        assert aborted["reference_price_micro"] == NEVER
        stop.set()
        await running

    asyncio.run(run())


def test_a_record_that_cannot_be_read_is_counted_and_the_rest_goes_on(
    own_broker: Callable[[], KafkaBroker], tmp_path: Path
) -> None:
    bootstrap = own_broker().bootstrap

    async def run() -> None:
        async with producing(bootstrap) as producer:
            prices = load_topics()["prices"]
            partition = partition_of("gpu", prices.partitions)
            headers = event_headers("poison", b"test", PricePublished.TYPE)
            await producer.begin_transaction()
            await send_rows(
                producer, {(prices.full_name, partition): [(b"gpu", b"\xff{", headers)]}
            )
            await producer.commit_transaction()
            await step(producer, 0, decided(0, 5))
            with worker(bootstrap, tmp_path) as process:
                await process.board_at(0)

                async def red() -> Any:
                    health = await process.get("health_served", "/healthz")
                    return None if health["healthy"] else health

                assert (
                    "prices: undecodable" in (await until(red, "a red health"))["faults"]["records"]
                )

    asyncio.run(run())
