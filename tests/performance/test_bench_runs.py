"""The bench works: it starts what it needs, measures everything, and does not fool itself."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.performance.machine import ROOT
from tests.performance.metrics import Totals
from tests.performance.outside import BenchError
from tests.performance.process_time import CpuMeter, cpu_seconds
from tests.performance.quick_run import quick_run
from tests.performance.samples import p99, percentile, spread
from tests.performance.workload import Workload

BENCH = ROOT / "tests" / "performance" / "bench.py"
PER_CYCLE = {"intake", "capacity", "clearing", "broker", "bench"}


@pytest.mark.slow
@pytest.mark.broker
def test_a_quick_run_measures_everything_on_a_real_broker(tmp_path: Path) -> None:
    document = quick_run(BENCH, tmp_path)
    assert document["p50_at_10000_jobs_below_1_s"] == "not measured"
    _check_intake(document["intake"])
    assert [figures["jobs"] for figures in document["cycles"]] == [400]
    for figures in document["cycles"]:
        _check_cycles(figures)
    assert [figures["jobs"] for figures in document["fleet"]] == [10_000]
    for figures in document["fleet"]:
        _check_fleet(figures)


def _check_intake(figures: dict[str, Any]) -> None:
    for name in ("intake", "rival"):
        rate = figures[name]
        assert rate["accepted"] == figures["events_per_run"]
        assert rate["rejected"] == 0
        for figure in ("events_per_s", "events_per_cpu_s"):
            assert 0 < rate[figure]["least"] <= rate[figure]["median"] <= rate[figure]["most"]
    assert figures["ratio_wall"] > 0
    assert figures["ratio_cpu"] > 0


def _check_cycles(figures: dict[str, Any]) -> None:
    assert figures["jobs_in_market"] == figures["jobs"]
    assert figures["changed_per_cycle"] == figures["jobs"] // 100
    assert 0 < figures["intake_p50_ms"] < figures["p50_ms"] <= figures["most_ms"]
    assert 0 < figures["clearing_decide_p50_ms"] <= figures["clearing_decide_most_ms"]
    assert figures["clearing_commit_p50_ms"] > 0
    assert figures["p99_ms"] is None
    assert figures["cpu_ms_per_cycle"].keys() == PER_CYCLE
    # Markets that are not short of supply would have nothing to decide.
    assert len(figures["prices_micro"]) == 3
    assert all(price > 0 for price in figures["prices_micro"].values())


def _check_fleet(figures: dict[str, Any]) -> None:
    assert figures["changed_jobs_per_cycle"] == figures["jobs"] // 100
    assert figures["bids_changed_ppm_least"] >= 990_000
    assert 0 < figures["p50_ms"] <= figures["p95_ms"] <= figures["most_ms"]
    assert figures["p99_ms"] is None
    assert 0 < figures["decide_p50_ms"] <= figures["decide_most_ms"]
    assert 0 < figures["commit_p50_ms"] <= figures["commit_most_ms"]
    assert figures["cpu_ms_per_cycle"].keys() == {"clearing", "broker", "bench"}
    assert 0 < figures["memory_mib"] <= figures["memory_most_mib"]
    assert figures["restore_cpu_s"] > 0
    assert all(price > 0 for price in figures["prices_micro"].values())
    assert figures["bound"] == "not measured"


def test_percentiles_are_values_of_the_sample() -> None:
    values = [float(v) for v in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99), p99(values)) == (50.0, 99.0, 99.0)
    assert percentile([7.0], 50) == 7.0
    assert p99(values[1:]) is None


def test_a_spread_is_relative_to_the_median() -> None:
    assert spread([90.0, 100.0, 120.0]).spread_percent == 30.0


def test_a_workload_is_a_function_of_its_seed() -> None:
    def drawn(seed: int) -> list[bytes]:
        workload = Workload(100, 3, seed)
        jobs = [job.payload() for job in workload.submit(100, 1)]
        return [*jobs, *(change.payload() for change in workload.change_limits(10))]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_a_workload_has_thirty_teams_in_ten_pools_and_three_markets() -> None:
    workload = Workload(1_000, 3, 1)
    teams = {job.team for job in workload.submit(1_000, 1)}
    nodes = workload.inventory()
    assert len(teams) == 30
    assert len({node.owner_pool for node in nodes} - {None}) == 10
    assert len({node.type for node in nodes}) == 3


def test_a_jobs_limit_changes_by_growing_revisions() -> None:
    workload = Workload(10, 3, 1)
    list(workload.submit(10, 1))
    revisions: dict[str, list[int]] = {}
    for _ in range(3):
        for change in workload.change_limits(10):
            revisions.setdefault(change.job, []).append(change.revision)
    assert set(map(tuple, revisions.values())) == {(1, 2, 3)}


def test_the_processor_time_of_a_process_grows_while_it_works() -> None:
    meter = CpuMeter({})
    start = own = cpu_seconds(os.getpid())
    while own <= start:
        sum(range(100_000))
        own = cpu_seconds(os.getpid())
    assert meter.used()["bench"] > 0


def test_steps_that_were_not_counted_make_the_run_fail() -> None:
    before, after = Totals(5, 1.0, 1.0), Totals(7, 3.0, 1.5)
    assert after.since(before, 2) == Totals(2, 2.0, 0.5)
    with pytest.raises(BenchError):
        after.since(before, 1)
