"""Billing on a real Kafka while everything around it breaks; and broken builds that this catches.

`make chaos-billing` is the long run by hand, with a seed of your choice.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.plan import Disturbance, Gap, Kind, Plan, plan_of
from tests.chaos.roles import BILLING_ALONE, ROLES, Role
from tests.chaos.run import Report, run_chaos
from walras_launcher.pytest_plugin import OwnBroker
from walras_launcher.redis import RedisServer, start_redis

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

EVENTS = 3_000
DISTURBANCES = 16
LONG_EVENTS = 200_000
LONG_DISTURBANCES = 48
CANARY_SEED = 5
CANARY_EVENTS = 600
CANARY_STEPS = 34


def run(
    plan: Plan, broker: OwnBroker, folder: Path, roles: Sequence[Role] = ROLES, *, broken: str = ""
) -> Report:
    def say(line: str) -> None:
        print(f"seed {plan.seed}: {line}")

    with start_redis() as redis:
        assert isinstance(redis, RedisServer)
        return asyncio.run(
            run_chaos(plan, broker(), redis, folder, say=say, roles=roles, broken=broken)
        )


def expect_clean(report: Report, plan: Plan) -> None:
    assert report.clean, report.document()
    assert report.usage_records == plan.events
    assert report.charge_lines > plan.events
    assert sum(report.disturbances.values()) == len(plan.disturbances)
    assert report.disturbances.keys() == {kind.value for kind in Kind}


def test_nothing_is_lost_doubled_or_wrong_whatever_is_disturbed(
    own_broker: OwnBroker, tmp_path: Path, global_random_seed: int
) -> None:
    plan = plan_of(global_random_seed, EVENTS, DISTURBANCES)
    expect_clean(run(plan, own_broker, tmp_path), plan)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nothing_is_lost_doubled_or_wrong_in_a_long_run(
    own_broker: OwnBroker, tmp_path: Path, global_random_seed: int
) -> None:
    plan = plan_of(global_random_seed, LONG_EVENTS, LONG_DISTURBANCES)
    expect_clean(run(plan, own_broker, tmp_path), plan)


def canary_plan() -> Plan:
    """A price that comes late, then the death of a worker that has published and not committed."""
    late = Disturbance(Kind.LATE_PRICE, 8, 0, Gap.IN_TRANSACTION, 0, 6, 0)
    deaths = [
        Disturbance(Kind.KILL_IN_STEP, step, partition, Gap.IN_TRANSACTION, 0, 1, 0)
        for step, partition in ((18, 0), (22, 1), (26, 2), (30, 3))
    ]
    return Plan(CANARY_SEED, CANARY_EVENTS, CANARY_STEPS, (late, *deaths))


def test_the_plan_of_the_canaries_is_clean_with_the_build_as_it_is(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    assert run(canary_plan(), own_broker, tmp_path, BILLING_ALONE).clean


def test_a_build_that_publishes_outside_the_transaction_is_caught(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    report = run(canary_plan(), own_broker, tmp_path, BILLING_ALONE, broken="publishes_outside")
    assert report.doubled
    assert (report.lost, report.wrong) == (0, 0)


def test_a_build_that_trusts_committed_offsets_and_no_claim_is_caught(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    report = run(canary_plan(), own_broker, tmp_path, BILLING_ALONE, broken="trusts_offsets")
    assert report.doubled
    assert report.twin


def test_a_build_that_joins_use_against_the_newest_price_is_caught(
    own_broker: OwnBroker, tmp_path: Path
) -> None:
    report = run(canary_plan(), own_broker, tmp_path, BILLING_ALONE, broken="joins_newest_price")
    assert report.wrong
    assert report.doubled == 0
