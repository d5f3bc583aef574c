"""Market killed, Redis killed, time passes: who answers, on a real Kafka and a real Redis."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from walras.quota_command import EXIT_ANSWERED, EXIT_UNKNOWN
from walras_client.ladder import Answer, Source
from walras_client.reader import QuotaReader, ReaderOptions
from walras_client.sheets import Quota
from walras_contracts.accounts import AccountsChanged, PoolDocument, TeamAccount
from walras_contracts.capacity import OwnSupply, SupplyPublished
from walras_contracts.event import Event
from walras_contracts.market import MarketQuota, QuotaGranted
from walras_launcher.kafka import KafkaBroker
from walras_launcher.redis import RedisServer
from walras_runtime.clock import wall_ms
from walras_runtime.health import Health
from walras_runtime.telemetry import Telemetry
from walras_snapshot.settings import Settings
from walras_snapshot.wiring import serve

pytestmark = pytest.mark.broker

DEADLINE_S = 60.0
POLL_S = 0.05
MAX_AGE_MS = 3_600_000
T = TypeVar("T")


def quota(team: str, cycle: int, macc: int) -> QuotaGranted:
    part = MarketQuota(
        market="gpu", allocated_macc=macc, opportunistic_macc=0, price_micro=2_000_000
    )
    return QuotaGranted(
        team=team, pool="p", cycle=cycle, market_time_ms=cycle * 60_000, markets=(part,)
    )


def supply(shared_macc: int) -> SupplyPublished:
    return SupplyPublished(
        market="gpu",
        shared_macc=shared_macc,
        own=(OwnSupply(pool="p", macc=8000),),
        withheld_macc=0,
        market_time_ms=0,
    )


def beginning() -> list[Event]:
    teams = (
        TeamAccount(team="a", income_local_per_hour=3),
        TeamAccount(team="b", income_local_per_hour=1),
    )
    document = PoolDocument(pool="p", weight_micro_per_hour=10**9, teams=teams)
    accounts = AccountsChanged(version=1, effective_ms=0, document=document)
    return [accounts, supply(4000), quota("a", 0, 7000), quota("b", 0, 5000)]


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


async def ask(options: ReaderOptions, *, later_ms: int = 0, team: str = "a") -> Answer:
    """A reader that was just started, whose clock is ``later_ms`` ahead."""
    return await QuotaReader(options, now_ms=lambda: wall_ms() + later_ms).read(team)


def run_command(*words: str) -> tuple[int, Any]:
    """Run `walras quota` as it is installed; return its exit code and its document."""
    done = subprocess.run(
        [sys.executable, "-m", "walras", "quota", *words, "--json", "--timeout-s", "30"],
        env={k: v for k, v in os.environ.items() if not k.startswith("WALRAS_")},
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    return done.returncode, json.loads(done.stdout)


async def fill(bootstrap: str, redis_url: str, open_decider: Callable[..., Any]) -> None:
    """Decide two cycles in epoch 4 and see them into Redis."""
    health = Health()

    async def published() -> bool | None:
        return True if health.details.get("barrier") == "1" and health.ready else None

    async with open_decider(bootstrap, epoch=4) as decider:
        await decider.step(0, beginning())
        await decider.step(1, [quota("a", 1, 6500)])
        async with projecting(bootstrap, redis_url, health):
            await until(published, "barrier 1 in Redis")


def test_market_and_redis_are_killed_and_every_answer_names_source_epoch_and_age(
    own_broker: Callable[[], KafkaBroker],
    own_redis: Callable[[], RedisServer],
    open_decider: Callable[..., Any],
    tmp_path: Path,
) -> None:
    broker, redis = own_broker(), own_redis()
    options = ReaderOptions(
        bootstrap=broker.bootstrap,
        redis_url=redis.url,
        file=tmp_path / "quota.json",
        max_quota_age_ms=MAX_AGE_MS,
        timeout_ms=30_000,
    )

    async def run() -> None:
        await fill(broker.bootstrap, redis.url, open_decider)
        market = await ask(options)
        # Broker and Redis are up, but nobody clears any more.
        silent = await ask(options, later_ms=2 * MAX_AGE_MS)
        assert silent.source == Source.FLOOR
        assert {verdict for _, verdict in silent.tried} == {"too_old"}
        await asyncio.to_thread(broker.kill)
        snapshot = await ask(options)
        await asyncio.to_thread(redis.kill)
        disk = await ask(options)
        late = await ask(options, later_ms=2 * MAX_AGE_MS)
        nobody = await ask(options, team="nobody")

        answers = [market, snapshot, disk, late]
        sources = [Source.MARKET, Source.SNAPSHOT, Source.DISK, Source.FLOOR]
        assert [found.source for found in answers] == sources
        ages = []
        for found in answers:
            assert found.place is not None
            assert (found.place.epoch, found.place.barrier) == (4, 1)
            assert found.age is not None
            assert found.age.ms is not None
            ages.append(found.age.ms)
        # The floor: own supply 8000, income 3 of 4.
        assert [found.quotas for found in answers] == [
            {"gpu": Quota(macc)} for macc in (6500, 6500, 6500, 6000)
        ]
        assert ages == sorted(ages)
        assert ages[3] > 2 * MAX_AGE_MS
        assert (nobody.source, nobody.quotas) == (Source.UNKNOWN, None)

    asyncio.run(run())


def test_the_command_answers_from_the_market_and_says_unknown_with_a_code_of_its_own(
    own_broker: Callable[[], KafkaBroker],
    own_redis: Callable[[], RedisServer],
    open_decider: Callable[..., Any],
    tmp_path: Path,
) -> None:
    broker, redis = own_broker(), own_redis()
    file = tmp_path / "quota.json"
    asyncio.run(fill(broker.bootstrap, redis.url, open_decider))
    redis.kill()
    words = ["--bootstrap", broker.bootstrap, "--redis", redis.url, "--file", str(file)]
    code, document = run_command("b", *words, "--max-age-s", "3600")
    assert code == EXIT_ANSWERED
    assert (document["source"], document["epoch"], document["granted_in_cycle"]) == ("market", 4, 0)
    assert document["quotas"] == {"gpu": {"allocated_macc": 5000, "opportunistic_macc": 0}}
    assert document["tried"]["snapshot"] == "store_unavailable"
    code, document = run_command("nobody", *words, "--max-age-s", "3600")
    assert (code, document["source"], document["quotas"]) == (EXIT_UNKNOWN, "unknown", None)
    broker.kill()
    file.unlink()
    code, document = run_command("b", *words)
    assert (code, document["reason"], document["epoch"]) == (EXIT_UNKNOWN, "nothing_known", None)
    assert document["tried"] == {
        "market": "broker_unavailable",
        "snapshot": "store_unavailable",
        "disk": "absent",
    }


def test_capacity_taken_back_cuts_quotas_at_once_and_inside_readers_age_by_barriers(
    own_broker: Callable[[], KafkaBroker], open_decider: Callable[..., Any]
) -> None:
    bootstrap = own_broker().bootstrap
    options = ReaderOptions(
        bootstrap=bootstrap, inside=True, max_quota_age_barriers=2, timeout_ms=30_000
    )

    async def run() -> None:
        async with open_decider(bootstrap) as decider:
            await decider.step(0, beginning())
            await decider.step(1, [supply(0)])
            reader = QuotaReader(options, now_ms=lambda: wall_ms() + 10**12)
            cut = await reader.read("a")
            # Quotas of 7000 and 5000 on 8000.
            assert cut.quotas == {"gpu": Quota(4667)}
            assert cut.scaled == ("gpu",)
            assert (await reader.read("b")).quotas == {"gpu": Quota(3333)}
            assert cut.age is not None
            assert (cut.age.barriers, cut.age.ms) == (0, None)
            # The ticker goes on; nobody clears.
            await decider.step(2, [], only="ticks")
            await decider.step(3, [], only="ticks")
            ageing = await reader.read("a")
            assert ageing.age is not None
            assert (ageing.source, ageing.age.barriers) == (Source.MARKET, 2)
            await decider.step(4, [], only="ticks")
            stale = await reader.read("a")
            assert (stale.source, stale.tried) == (
                Source.UNKNOWN,
                ((Source.MARKET, "too_old"),),
            )

    asyncio.run(run())
