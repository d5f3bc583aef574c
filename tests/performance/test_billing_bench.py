"""The billing bench works: it measures everything, and gives no figures of work left undone."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from tests.performance.billing_copy import copied
from tests.performance.billing_growth import Feed, GrowthFigures, GrowthPlan, measure
from tests.performance.billing_rate import expected_amount
from tests.performance.billing_results import (
    GROWTH_LEASES,
    MOST_SETTLEMENT_MS,
    SETTLEMENT_TEAMS,
    BillingResults,
    Judgement,
)
from tests.performance.billing_settlement import SettlementFigures
from tests.performance.billing_workload import (
    MARKETS,
    MINUTE_MS,
    START_MS,
    BillingSize,
    BillingWorkload,
)
from tests.performance.machine import ROOT, Machine
from tests.performance.outside import BenchError
from tests.performance.quick_run import quick_run
from tests.performance.samples import Spread
from walras_billing.handlers import BillingStage
from walras_contracts.charges import ChargeRated
from walras_contracts.work import UsageMetered
from walras_runtime.records import Record, Step, StepResult

BENCH = ROOT / "tests" / "performance" / "billing_bench.py"
SIZE = BillingSize(leases=60, teams=12, pools=4, seed=3)
GROWTH = GrowthPlan(leases=(40,), events=10, settle=1, steps=2, teams=8, pools=2, seed=3)


@pytest.mark.slow
@pytest.mark.broker
def test_a_quick_run_measures_everything_on_a_real_broker(tmp_path: Path) -> None:
    document = quick_run(BENCH, tmp_path)
    assert document["bench"] == "billing"
    assert {bound["outcome"] for bound in document["bounds"]} == {"not measured"}
    rate = document["rate"]
    for name in ("billing", "copy", "noop"):
        for figure in ("events_per_s", "events_per_cpu_s"):
            assert 0 < rate[name][figure]["least"] <= rate[name][figure]["most"]
    assert rate["ratio_cpu"] > 0
    assert rate["noop_ratio_cpu"] > 0
    assert [figures["leases"] for figures in document["growth"]] == [200, 1_000]
    assert document["settlement"]["teams"] == 200
    assert document["settlement"]["wall_ms"]["least"] > 0
    assert document["restart"]["charges"] == 900
    assert document["restart"]["wall_ms"]["least"] > 0


def test_a_billing_workload_is_a_function_of_its_seed() -> None:
    def drawn(seed: int) -> list[bytes | None]:
        workload = BillingWorkload(replace(SIZE, seed=seed))
        return [output.payload for output in workload.usage(2, range(SIZE.leases))]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_a_billing_workload_has_dense_minutes_of_all_kinds_of_use_in_teams_of_documents() -> None:
    workload = BillingWorkload(SIZE)
    pools = {
        team.team: change.document.pool
        for change in workload.documents()
        if change.document.kind == "pool"
        for team in change.document.teams
    }
    use = [
        UsageMetered.model_validate_json(output.payload or b"")
        for number in (1, 2)
        for output in workload.usage(number, range(SIZE.leases))
    ]
    assert Counter(each.seq for each in use) == {0: SIZE.leases, 1: SIZE.leases}
    assert {each.start_ms - START_MS for each in use} == {0, MINUTE_MS}
    assert {each.end_ms - each.start_ms for each in use} == {MINUTE_MS}
    assert {each.team: each.pool for each in use} == pools
    assert {each.market for each in use} == set(MARKETS)
    assert len({each.work_class for each in use}) == 3
    assert {each.limit_micro is None for each in use} == {False, True}
    prices = {price.market: price for price in workload.prices(2)}
    assert {price.market_time_ms for price in prices.values()} == {START_MS + MINUTE_MS}
    assert expected_amount(workload, range(1, 2)) != expected_amount(workload, range(2, 3)) > 0


def test_the_rival_writes_charge_records_with_the_fields_of_the_usage() -> None:
    (output,) = BillingWorkload(SIZE).usage(1, range(7, 8))
    record = Record("usage", 2, 31, output.key, output.type, output.payload)
    usage = UsageMetered.model_validate_json(output.payload or b"")
    copy = copied(record, 2)
    charge = ChargeRated.model_validate_json(copy.payload or b"")
    assert (copy.key, copy.partition, charge.payload()) == (charge.record_key(), 2, copy.payload)
    common = charge.model_dump().items() & usage.model_dump().items()
    # Figures say how the time was used; no charge has them.
    assert {name for name, _ in common} == UsageMetered.model_fields.keys() - {
        *("running_ms", "busy_ms")
    }


def test_the_cost_of_an_event_is_measured_on_events_that_were_charged() -> None:
    figures = measure(GROWTH)
    assert (figures.leases, figures.steps) == (40, 2)
    assert figures.cpu_us_per_event.least > 0


def test_an_event_takes_as_many_calls_however_many_leases_are_open() -> None:
    """Counted, not timed: what then differs at a million leases are the processor's caches."""
    few, many = calls_in_a_step(200), calls_in_a_step(5_200)
    # Steps differ by the number of teams in them, whose wallets are booked once.
    assert few > 0
    assert abs(many - few) <= few // 50


def calls_in_a_step(leases: int) -> int:
    """Return how many calls the step after the opening of all leases makes; 100 events each."""
    plan = replace(GROWTH, leases=(leases,), events=100)
    feed = Feed(plan, leases)
    for first in range(0, leases, plan.events):
        feed.step(range(first, first + plan.events))
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        del frame, argument
        calls += event.endswith("call")

    sys.setprofile(count)
    try:
        feed.step(range(0, leases, leases // plan.events))
    finally:
        sys.setprofile(None)
    return calls


def test_events_that_were_not_charged_give_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BillingStage, "step", _decide_nothing)
    with pytest.raises(BenchError, match="0 charges of 70 events"):
        measure(GROWTH)


def _decide_nothing(stage: BillingStage, step: Step) -> StepResult:
    del stage, step
    return StepResult()


def test_bounds_are_met_missed_or_not_measured() -> None:
    assert Judgement("least", 0.5, 0.5, is_least=True).outcome == "met"
    assert Judgement("least", 0.49, 0.5, is_least=True).outcome == "missed"
    assert Judgement("most", 10.0, 10.0).outcome == "met"
    assert Judgement("most", 10.1, 10.0).outcome == "missed"
    assert Judgement("none", None, 10.0).outcome == "not measured"


def test_a_run_is_judged_by_its_slowest_settlement_and_by_the_growth_of_the_median_cost() -> None:
    machine = Machine("cpu", 2, 1.0, "kernel", "3", "17", "4", 0.0)
    slow = Spread(10.0, 5.0, MOST_SETTLEMENT_MS + 1.0, 0.0)
    settlement = SettlementFigures(SETTLEMENT_TEAMS, 3, slow, slow, 0.0)
    results = BillingResults(
        machine=machine,
        commit="",
        changed_files=False,
        quick=False,
        seed=1,
        growth=tuple(
            GrowthFigures(leases, 10, 1, Spread(cost, cost, cost, 0.0))
            for leases, cost in zip(GROWTH_LEASES, (10.0, 12.0), strict=True)
        ),
        settlement=settlement,
    )
    outcomes = [(each.figure, each.outcome) for each in results.judgements()]
    assert outcomes == [
        (None, "not measured"),
        (None, "not measured"),
        (1.2, "met"),
        (MOST_SETTLEMENT_MS + 1.0, "missed"),
        (None, "not measured"),
    ]
    fewer = replace(settlement, teams=SETTLEMENT_TEAMS - 1)
    assert replace(results, settlement=fewer).judgements()[3].outcome == "not measured"
