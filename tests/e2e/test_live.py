"""The market live: a ticker in place of the replay driver, wall clock for market time."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from walras.demo.driver import BarrierWatch
from walras.demo.services import replay_services
from walras.processes import Service, Supervisor
from walras_contracts.accounts import AccountsRequested, PoolDocument, TeamAccount
from walras_contracts.capacity import NodeObserved
from walras_contracts.demand import JobSubmitted
from walras_contracts.topics import load_topics
from walras_launcher.pytest_plugin import OwnBroker
from walras_launcher.running import Redis
from walras_runtime.clock import wall_ms
from walras_runtime.kafka.log_reading import plain_consumer, read_all
from walras_runtime.kafka.producing import make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import event_headers
from walras_runtime.records import Output, emit

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

INTERVAL_MS = 1_000
CYCLE_EVERY = 2
TEAM = "team-a"


async def tell(bootstrap: str, outputs: list[Output]) -> None:
    """Write outside events as any producer would: no barriers."""
    producer = make_producer(bootstrap)
    await producer.start()
    try:
        for number, output in enumerate(outputs):
            headers = event_headers(f"{output.key}/{number}", b"test/live", output.type)
            topic = load_topics(1)[output.topic].full_name
            rows = {(topic, 0): [(output.key.encode(), output.payload, headers)]}
            await asyncio.gather(*await send_rows(producer, rows))
    finally:
        await producer.stop()


async def bodies(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """Return the payloads of a topic, barriers left out."""
    messages = await read_all(bootstrap, load_topics(1)[topic].full_name, [0])
    return [
        json.loads(m.value)
        for m in messages
        if m.value is not None and not m.key.startswith(b"~barrier/")
    ]


def live_services() -> list[Service]:
    services = [
        Service(
            s.name,
            s.module,
            {
                **s.settings,
                "WALRAS_CYCLE_EVERY": str(CYCLE_EVERY),
            },
        )
        for s in replay_services(INTERVAL_MS, 0)
    ]
    settings = {"WALRAS_INTERVAL_MS": str(INTERVAL_MS)}
    return [*services, *(Service(f"ticker-{i}", "walras_ticker", settings) for i in range(2))]


async def a_job_runs_and_ends(bootstrap: str, redis: str, logs: Path) -> None:
    topics = load_topics(1)
    await create_topics(bootstrap, topics)
    pool = PoolDocument(
        pool="unit-a",
        weight_micro_per_hour=10_000_000,
        teams=(TeamAccount(team=TEAM, income_local_per_hour=100),),
    )
    node = NodeObserved(
        node="n1", type="h100", cell="global", devices=8, owner_pool=None, observed_ms=wall_ms()
    )
    await tell(bootstrap, [emit(AccountsRequested(document=pool)), emit(node)])
    supervisor = Supervisor(
        live_services(),
        {
            "WALRAS_KAFKA_BOOTSTRAP": bootstrap,
            "WALRAS_REDIS_URL": redis,
            "WALRAS_MODE": "live",
            "WALRAS_PARTITIONS": "1",
            "WALRAS_ELECTION_SESSION_MS": "2000",
        },
        logs,
    )
    supervisor.start()
    try:
        async with plain_consumer(bootstrap) as consumer:
            watch = BarrierWatch(consumer, topics["fleet.done"])
            await watch.wait(2, supervisor.look)
            job = JobSubmitted(
                team=TEAM,
                job="job-1",
                types=("h100",),
                size_macc=4000,
                expected_run_ms=3_000,
                submitted_ms=wall_ms(),
            )
            await tell(bootstrap, [emit(job)])
            await watch.wait(watch.reached() + 12, supervisor.look)
            # A ticker dies; whoever takes over counts on.
            supervisor.kill("ticker-0")
            await watch.wait(watch.reached() + 6, supervisor.look)
            supervisor.kill("ticker-1")
            await watch.wait(watch.reached() + 6, supervisor.look)
        states = [b["state"] for b in await bodies(bootstrap, "job.status") if b["job"] == "job-1"]
        assert [s for s in states if s != "pending"] == ["running", "finished"]
        used = await bodies(bootstrap, "usage")
        assert sum(u["running_ms"] for u in used) == 3_000
        numbers = [c["cycle"] for c in await bodies(bootstrap, "cycles") if "input_digest" in c]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert len(numbers) >= 10
    finally:
        supervisor.stop()


def test_a_job_submitted_live_runs_and_ends_while_tickers_are_killed(
    own_broker: OwnBroker, redis_server: Redis, tmp_path: Path
) -> None:
    asyncio.run(a_job_runs_and_ends(own_broker().bootstrap, redis_server.url, tmp_path))
