"""Drains on real processes and a real Kafka while agents, drain, placement and broker are killed.

`make chaos-drains` is the long run by hand, with a seed of your choice.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos_drains.plan import KILLS as KINDS
from tests.chaos_drains.plan import Disturbance, Kind, Plan, plan_of
from tests.chaos_drains.run import Report, run_drains
from tests.chaos_drains.terms import USUAL, Times
from walras_launcher.pytest_plugin import OwnBroker

pytestmark = [
    pytest.mark.broker,
    pytest.mark.timeout(300),
]

DRAINS, KILLS = 20, 7
LONG_DRAINS, LONG_KILLS = 200, 40


def run(broker: OwnBroker, folder: Path, plan: Plan, times: Times = USUAL) -> Report:
    def say(line: str) -> None:
        print(f"seed {plan.seed}: {line}")

    report = asyncio.run(run_drains(plan, broker(), folder, say, times))
    say(str(report.document()))
    return report


def expect_clean(report: Report, plan: Plan) -> None:
    assert report.clean, report.document()
    assert report.disturbances.keys() == {kind.value for kind in (*KINDS, Kind.CLAWBACK)}
    assert sum(report.kills.values()) == plan.kills()
    assert report.verdict.figures["drains begun"] >= plan.drains


def test_no_lease_outlives_its_holder_and_no_job_runs_twice_whoever_is_killed(
    own_broker: OwnBroker, tmp_path: Path, global_random_seed: int
) -> None:
    plan = plan_of(global_random_seed, DRAINS, KILLS)
    expect_clean(run(own_broker, tmp_path, plan), plan)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_lease_outlives_its_holder_and_no_job_runs_twice_in_a_long_run(
    own_broker: OwnBroker, tmp_path: Path, global_random_seed: int
) -> None:
    plan = plan_of(global_random_seed, LONG_DRAINS, LONG_KILLS)
    expect_clean(run(own_broker, tmp_path, plan), plan)


@pytest.mark.slow
def test_keepers_that_outlive_the_lease_timeout_are_caught(
    own_broker: OwnBroker, tmp_path: Path, global_random_seed: int
) -> None:
    """What runs on the node of a dead agent is not ended in time: its lease is given to another."""
    away = Disturbance(Kind.AGENT_AWAY, (), "n1", None, 8, 0, 0)
    plan = Plan(global_random_seed, 0, (away,))
    report = run(own_broker, tmp_path, plan, replace(USUAL, orphan_ms=60_000))
    faults = {name for name, found in report.verdict.faults.items() if found}
    assert "ran without a lease" in faults
    assert faults <= {"ran without a lease", "ran twice"}
