"""A broker that is away for longer than the lease timeout releases no lease."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos_drains.outage import Outage, released, run_outage
from tests.chaos_drains.rehearsal import STEPS, rehearse, time_ms
from tests.chaos_drains.terms import SUPPLY, Times
from tests.chaos_drains.verdict import judge
from walras_launcher.pytest_plugin import OwnBroker

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the agents run on Linux")
SHORT = Times(lease_timeout_ms=5_000, orphan_ms=3_000)
SHORT_AWAY_MS = 12_000
LONG = Times(heartbeat_ms=10_000, orphan_ms=60_000, lease_timeout_ms=90_000)
"""As by default, but that barriers come more often."""
LONG_AWAY_MS = 180_000


def expect_nothing(outage: Outage) -> None:
    assert released(outage) == []
    assert judge(outage.last).lines() == []
    assert len(outage.behind.lives) == SUPPLY


def run(broker: OwnBroker, folder: Path, times: Times, away_ms: int) -> Outage:
    assert away_ms >= 2 * times.lease_timeout_ms
    return asyncio.run(run_outage(broker(), folder, times, away_ms, print))


@pytest.mark.broker
@on_linux
@pytest.mark.timeout(300)
def test_an_outage_that_is_longer_than_the_lease_timeout_releases_no_lease(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    expect_nothing(run(own_broker, tmp_path, SHORT, SHORT_AWAY_MS))


@pytest.mark.broker
@on_linux
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_an_outage_of_three_minutes_releases_no_lease(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    expect_nothing(run(own_broker, tmp_path, LONG, LONG_AWAY_MS))


def behind_an_outage() -> Outage:
    """Two leases that still run at the end of a history."""
    history = rehearse().history
    for topic in ("leases", "job.status", "placement.figures"):
        history.entries[topic] = [e for e in history.entries[topic] if e.step <= 2]
    for topic in ("lease.status", "vacate", "drain.sessions"):
        history.entries[topic] = []
    history.lives = [replace(life, last_ms=time_ms(STEPS)) for life in history.lives[:2]]
    back_ms = time_ms(STEPS) - history.times.lease_timeout_ms
    return Outage(history, back_ms, history)


def test_an_outage_that_releases_something_is_seen() -> None:
    assert released(behind_an_outage()) == []
    for topic, word in (
        ("vacate", "asked to leave"),
        ("lease.status", "is freed"),
        ("job.status", "ended"),
    ):
        outage = behind_an_outage()
        outage.behind.entries[topic] = rehearse().history.entries[topic]
        assert any(word in fault for fault in released(outage)), topic
    told = rehearse()
    told.node(20, "n1", lost=True)
    outage = behind_an_outage()
    outage.behind.entries["nodes"] = told.history.entries["nodes"]
    assert released(outage) == ["node n1 was lost"]
    outage = behind_an_outage()
    dead = replace(outage.behind.lives[0], last_ms=time_ms(STEPS) - 1)
    outage.behind.lives[0] = dead
    assert released(outage) == [f"process {dead.pid} of {dead.lease} did not live on"]
