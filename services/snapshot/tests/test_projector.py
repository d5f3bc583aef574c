"""The projector on a real Kafka and a real Redis."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from walras_contracts.accounts import AccountsChanged, PoolDocument, TeamAccount
from walras_contracts.capacity import OwnSupply, SupplyPublished
from walras_contracts.event import Event
from walras_contracts.market import MarketQuota, QuotaGranted
from walras_launcher.kafka import KafkaBroker
from walras_launcher.redis import RedisServer
from walras_runtime.health import Health
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.redis.log_id import read_log_id
from walras_runtime.redis.snapshot_store import RedisSnapshotStore, known_logs, open_redis
from walras_runtime.redis.versioned import Outcome, Stamp, StoreUnavailableError, Versioned
from walras_runtime.telemetry import Telemetry
from walras_snapshot.settings import Settings
from walras_snapshot.wiring import serve

pytestmark = pytest.mark.broker

DEADLINE_S = 60.0
POLL_S = 0.05
CYCLES = "walras.cycles.v1"
QUOTAS = "walras.quotas.v1"
T = TypeVar("T")


def quota(team: str, cycle: int, macc: int) -> QuotaGranted:
    part = MarketQuota(
        market="gpu", allocated_macc=macc, opportunistic_macc=0, price_micro=2_000_000
    )
    return QuotaGranted(
        team=team, pool="p", cycle=cycle, market_time_ms=cycle * 60_000, markets=(part,)
    )


def beginning() -> list[Event]:
    teams = (
        TeamAccount(team="a", income_local_per_hour=3),
        TeamAccount(team="b", income_local_per_hour=1),
    )
    document = PoolDocument(pool="p", weight_micro_per_hour=10**9, teams=teams)
    supply = SupplyPublished(
        market="gpu",
        shared_macc=4000,
        own=(OwnSupply(pool="p", macc=8000),),
        withheld_macc=0,
        market_time_ms=0,
    )
    accounts = AccountsChanged(version=1, effective_ms=0, document=document)
    return [accounts, supply, quota("a", 0, 7000), quota("b", 0, 5000)]


async def until(look: Callable[[], Awaitable[T | None]], what: str) -> T:
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while asyncio.get_running_loop().time() < deadline:
        found = await look()
        if found is not None:
            return found
        await asyncio.sleep(POLL_S)
    raise AssertionError(f"never seen: {what}")


@asynccontextmanager
async def projecting(bootstrap: str, redis_url: str, health: Health) -> AsyncIterator[None]:
    """Run the service until the block is left."""
    settings = Settings.read(
        kafka_bootstrap=bootstrap, redis_url=redis_url, mode="replay", check_interval_ms=100
    )
    stop = asyncio.Event()
    running = asyncio.create_task(serve(settings, stop, Telemetry("snapshot"), health))
    try:
        yield
    finally:
        stop.set()
        await running


async def shown(redis_url: str, barrier: int) -> Versioned:
    """Wait until Redis shows a barrier."""

    async def look() -> Versioned | None:
        async with open_redis(redis_url) as client:
            try:
                logs = await known_logs(client)
                if not logs:
                    return None
                value = await RedisSnapshotStore(client, logs[0], "snapshot").read()
            except StoreUnavailableError:
                return None
        return value if value is not None and value.stamp.step == barrier else None

    return await until(look, f"barrier {barrier} in Redis")


def test_the_snapshot_follows_the_log_and_never_shows_what_was_aborted(
    own_broker: Callable[[], KafkaBroker],
    own_redis: Callable[[], RedisServer],
    open_decider: Callable[..., Any],
) -> None:
    bootstrap, redis_url = own_broker().bootstrap, own_redis().url

    async def run() -> None:
        async with open_decider(bootstrap) as decider:
            await decider.step(0, beginning())
            async with projecting(bootstrap, redis_url, Health()):
                first = await shown(redis_url, 0)
                await decider.step(1, [quota("a", 1, 666)], commit=False)
                await decider.step(1, [quota("a", 1, 6500)])
                second = await shown(redis_url, 1)
        assert first.stamp == Stamp(1, 0, 0)
        assert json.loads(first.fields["body"])["floor"] == {
            "a": {"gpu": 6000},
            "b": {"gpu": 2000},
        }
        quotas = json.loads(second.fields["body"])["quotas"]
        assert quotas["a"]["markets"]["gpu"]["allocated_macc"] == 6500
        assert (quotas["a"]["cycle"], quotas["b"]["cycle"]) == (1, 0)
        marks = [parse_message(m, "quotas") for m in await read_all(bootstrap, QUOTAS, [0])]
        stamps = [m.timestamp_ms for m in marks if isinstance(m, BarrierMark)]
        assert second.fields["published_at_ms"] == b"%d" % stamps[1]
        log_id = await read_log_id(bootstrap, CYCLES)
        assert log_id is not None
        async with open_redis(redis_url) as client:
            assert await known_logs(client) == [log_id]
            # A projector that has not noticed the new leader yet.
            old = Versioned(Stamp(0, 99, 99), {"body": b"{}", "published_at_ms": b"1"})
            store = RedisSnapshotStore(client, log_id, "snapshot")
            assert (await store.write(old)).outcome == Outcome.STALE
            assert await store.read() == second

    asyncio.run(run())


def test_a_redis_killed_and_wiped_in_the_middle_is_rebuilt_to_the_same_bytes(
    own_broker: Callable[[], KafkaBroker],
    own_redis: Callable[[], RedisServer],
    open_decider: Callable[..., Any],
) -> None:
    bootstrap, redis = own_broker().bootstrap, own_redis()

    async def run() -> None:
        health = Health()

        async def red() -> str | None:
            return health.faults.get("redis")

        async def green() -> bool | None:
            return True if not health.faults and health.ready else None

        async with open_decider(bootstrap) as decider:
            await decider.step(0, beginning())
            async with projecting(bootstrap, redis.url, health):
                before = await shown(redis.url, 0)
                await asyncio.to_thread(redis.kill)
                assert "store_unavailable" in await until(red, "a red health")
                await asyncio.to_thread(redis.restart)
                assert await shown(redis.url, 0) == before
                await until(green, "a green health")
                # The market goes on while Redis is down.
                await asyncio.to_thread(redis.kill)
                await decider.step(1, [quota("a", 1, 6500)])
                await decider.step(2, [quota("b", 2, 4500)])
                await asyncio.to_thread(redis.restart)
                after = await shown(redis.url, 2)
                async with open_redis(redis.url) as client:
                    await client.flushall()
                assert await shown(redis.url, 2) == after
            async with open_redis(redis.url) as client:
                await client.flushall()
            # Another process, which reads the log from its beginning, writes the same bytes.
            async with projecting(bootstrap, redis.url, Health()):
                assert await shown(redis.url, 2) == after

    asyncio.run(run())


def test_a_broker_killed_in_the_middle_is_followed_again_when_it_is_back(
    own_broker: Callable[[], KafkaBroker],
    own_redis: Callable[[], RedisServer],
    open_decider: Callable[..., Any],
) -> None:
    broker, redis = own_broker(), own_redis()

    async def run() -> None:
        async with open_decider(broker.bootstrap) as decider:
            await decider.step(0, beginning())
        async with projecting(broker.bootstrap, redis.url, Health()):
            before = await shown(redis.url, 0)
            await asyncio.to_thread(broker.kill)
            # Redis is looked after although the log cannot be read.
            async with open_redis(redis.url) as client:
                await client.flushall()
            assert await shown(redis.url, 0) == before
            await asyncio.to_thread(broker.restart)
            async with open_decider(broker.bootstrap, epoch=2) as decider:
                await decider.step(1, [quota("a", 1, 6500)])
            after = await shown(redis.url, 1)
        assert after.stamp == Stamp(2, 1, 1)
        # The log is the same one, so its key is.
        async with open_redis(redis.url) as client:
            assert len(await known_logs(client)) == 1

    asyncio.run(run())


def test_another_log_at_the_same_address_is_kept_under_a_key_of_its_own(
    own_broker: Callable[[], KafkaBroker],
    own_redis: Callable[[], RedisServer],
    open_decider: Callable[..., Any],
) -> None:
    broker, redis = own_broker(), own_redis()

    async def log_id() -> str | None:
        # A transaction's markers are written after its commit was answered.
        return await read_log_id(broker.bootstrap, CYCLES)

    async def run() -> None:
        async with open_decider(broker.bootstrap) as decider:
            for number in range(4):
                await decider.step(number, beginning() if number == 0 else [])
        first_id = await until(log_id, "the first log")
        async with projecting(broker.bootstrap, redis.url, Health()):
            before = await shown(redis.url, 3)
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(shutil.rmtree, broker.directory / "data")
            await asyncio.to_thread(broker.restart)
            async with open_decider(broker.bootstrap) as decider:
                await decider.step(0, beginning())
            second_id = await until(log_id, "the second log")
            assert first_id != second_id
            async with open_redis(redis.url) as client:

                async def look() -> Versioned | None:
                    return await RedisSnapshotStore(client, second_id, "snapshot").read()

                # Its stamp is older than that of the other log: under one key it would be stale.
                assert (await until(look, "the second log")).stamp == Stamp(1, 0, 0)
                assert await RedisSnapshotStore(client, first_id, "snapshot").read() == before
                assert await known_logs(client) == sorted([first_id, second_id])

    asyncio.run(run())
