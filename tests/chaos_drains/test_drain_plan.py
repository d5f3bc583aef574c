"""The plan of a run of drains is a function of the seed, and holds what it must."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chaos_drains.market import STOP_TEAM, MarketStage
from tests.chaos_drains.plan import BEHAVIOURS, KILLS, MOST_STEPS, SLOTS, Kind, Plan, plan_of
from tests.chaos_drains.terms import SUPPLY, TEAMS, USUAL
from walras_runtime.records import Barrier, Record, Step, StepResult

SEEDS = st.integers(0, 2**31)
FOLDERS = {"CHAOS_EVIDENCE": "/evidence", "CHAOS_DEVICES": "/devices"}
DEMAND = Record("demand", 0, 0, f"{STOP_TEAM}/all", "", b"")


@settings(max_examples=20)
@given(SEEDS, st.integers(7, 60))
def test_a_plan_kills_as_often_as_it_is_asked_to_and_each_kind_at_least_once(
    seed: int, kills: int
) -> None:
    plan = plan_of(seed, 20, kills)
    kinds = Counter(each.kind for each in plan.disturbances)
    assert plan.kills() == kills
    assert kinds.keys() == {*KILLS, Kind.CLAWBACK}
    assert plan == plan_of(seed, 20, kills)


def test_too_few_kills_for_each_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="kills: at least 7, was 6"):
        plan_of(1, 20, 6)


@settings(max_examples=5)
@given(SEEDS)
def test_jobs_and_quotas_are_there_all_the_time(seed: int) -> None:
    plan = plan_of(seed, 20, 7)
    queued: set[str] = set()
    behaviours = set()
    for step in range(MOST_STEPS):
        for job, what in plan.jobs.get(step, ()):
            behaviours.add(job.behaviour)
            if what == "comes":
                assert job.name not in queued
                queued.add(job.name)
            else:
                assert job.name in queued
            if what == "goes":
                queued.discard(job.name)
        # Between two jobs of a slot there are at most three steps.
        assert step < 4 or len(queued) > 0
        assert len(queued) <= SLOTS * len(TEAMS)
    assert behaviours == set(BEHAVIOURS)
    for shares in plan.quotas.values():
        assert shares.keys() == set(TEAMS)
        assert sum(bought + gift for bought, gift in shares.values()) == SUPPLY


def decided(stage: MarketStage, number: int, *demand: Record) -> StepResult:
    return stage.step(Step(Barrier(number, number * 500), {"demand": demand}))


def test_the_market_stops_when_it_is_told_to_and_stays_so_after_a_restart() -> None:
    plan = Plan(3, 0, ())
    first = MarketStage(plan, USUAL, FOLDERS)
    results = [decided(first, number) for number in range(30)]
    stopped = decided(first, 30, DEMAND)
    assert {output.topic for result in results for output in result.outputs} == {
        *("accounts", "queue", "quotas"),
    }
    assert [output.topic for output in stopped.outputs] == ["quotas"] * len(TEAMS)
    second = MarketStage(plan, USUAL, FOLDERS)
    for change in stopped.state:
        second.load(change.key, change.value or b"")
    for number in range(31, 80):
        for stage in (first, second):
            assert decided(stage, number) == StepResult()


def test_a_still_plan_changes_nothing_after_its_first_step() -> None:
    stage = MarketStage(Plan(0, 0, (), still=True), USUAL, FOLDERS)
    assert decided(stage, 0).outputs
    assert all(not decided(stage, number).outputs for number in range(1, 500))
