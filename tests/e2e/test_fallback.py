"""The market killed: readers fall back to the snapshot, and then to the contracted floor."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.disturbances import claim_of, kill_leader, snapshot_body
from walras.demo.run import Running
from walras_client.ladder import Answer, Source
from walras_client.reader import QuotaReader, ReaderOptions
from walras_contracts.market import QuotaGranted
from walras_contracts.topics import load_topics
from walras_runtime.clock import wall_ms
from walras_runtime.kafka.log_reading import read_all

RunMarket = Callable[..., dict[str, Any]]

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

MAX_AGE_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Asking:
    """How to ask for one team's quota: as a program does, and as a person does."""

    running: Running
    file: Path
    team: str

    async def reader(self, later_ms: int = 0) -> Answer:
        """Ask by a reader that was just made and whose clock is ahead by so much."""
        options = ReaderOptions(
            bootstrap=self.running.broker.bootstrap,
            redis_url=self.running.redis.url,
            file=self.file,
            max_quota_age_ms=MAX_AGE_MS,
            timeout_ms=30_000,
        )
        return await QuotaReader(options, now_ms=lambda: wall_ms() + later_ms).read(self.team)

    async def command(self, max_age_s: int) -> dict[str, Any]:
        """Ask by `walras quota`."""
        words = [
            *("quota", self.team, "--json", "--max-age-s", str(max_age_s), "--timeout-s", "30"),
            *("--bootstrap", self.running.broker.bootstrap, "--redis", self.running.redis.url),
            *("--file", str(self.file)),
        ]
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "walras", *words],
            env={k: v for k, v in os.environ.items() if not k.startswith("WALRAS_")},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        document: dict[str, Any] = json.loads(done.stdout)
        return document


async def a_team_with_quota(running: Running) -> str:
    """Return the team that was granted most, by the log."""
    topic = load_topics(1)["quotas"]
    held: dict[str, int] = {}
    for message in await read_all(running.broker.bootstrap, topic.full_name, [0]):
        if dict(message.headers).get("ce_type") == QuotaGranted.TYPE.encode():
            quota = QuotaGranted.model_validate_json(message.value)
            held[quota.team] = sum(part.allocated_macc for part in quota.markets)
    return max(sorted(held), key=lambda team: held[team])


async def kill_the_market(running: Running) -> None:
    """Kill every service; nobody starts them again."""
    for name in running.supervisor.names():
        await asyncio.to_thread(running.supervisor.kill, name)
    await asyncio.to_thread(running.supervisor.stop)


def test_readers_of_a_killed_market_are_told_source_epoch_and_age(
    run_market: RunMarket, tmp_path: Path
) -> None:
    kills: list[str] = []
    epochs: list[int] = []
    answers: dict[str, Answer] = {}
    documents: dict[str, dict[str, Any]] = {}

    async def inspect(running: Running) -> None:
        await snapshot_body(running, running.replay.cycles)
        epochs.append((await claim_of(running, "clearing")).epoch)
        asking = Asking(running, tmp_path / "quota.json", await a_team_with_quota(running))
        await kill_the_market(running)
        answers["market"] = await asking.reader()
        documents["market"] = await asking.command(3600)
        answers["silent"] = await asking.reader(2 * MAX_AGE_MS)
        await asyncio.to_thread(running.broker.kill)
        answers["snapshot"] = await asking.reader()
        documents["snapshot"] = await asking.command(3600)
        answers["late"] = await asking.reader(2 * MAX_AGE_MS)
        documents["late"] = await asking.command(1)

    # Epoch 1 would be that of every service, and of an answer that names none.
    disturb = kill_leader("clearing", every_s=3_600, every_cycles=20, log=kills)
    run_market(disturb=disturb, inspect=inspect, reported=False, election_session_ms=2_000)
    assert len(kills) >= 2
    assert epochs[0] > 2

    sources = {"market": Source.MARKET, "snapshot": Source.SNAPSHOT, "late": Source.FLOOR}
    places = set()
    for name, found in answers.items():
        assert found.source == sources.get(name, Source.FLOOR), name
        assert found.place is not None
        assert found.quotas is not None
        places.add((found.place.log_id, found.place.epoch, found.place.barrier))
    assert [place[1:] for place in places] == [(epochs[0], 60)]
    assert answers["market"].quotas == answers["snapshot"].quotas
    assert any(quota.allocated_macc for quota in (answers["market"].quotas or {}).values())
    ages = {name: found.age.ms for name, found in answers.items() if found.age is not None}
    assert 0 <= (ages["market"] or 0) < (ages["snapshot"] or 0) < MAX_AGE_MS
    assert 2 * MAX_AGE_MS < (ages["silent"] or 0) < (ages["late"] or 0)

    for name, document in documents.items():
        assert document["source"] == sources[name].value
        assert (document["epoch"], document["barrier"]) == (epochs[0], 60)
        assert document["age_ms"] >= 0
        quotas = {m: q["allocated_macc"] for m, q in document["quotas"].items()}
        assert quotas == {m: q.allocated_macc for m, q in (answers[name].quotas or {}).items()}
    assert documents["market"]["age_ms"] < documents["snapshot"]["age_ms"]
    assert documents["late"]["age_ms"] > 1_000
