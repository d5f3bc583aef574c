"""The legs with a real agent work, and judge only what was measured at size."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.performance.agent_load import AgentFigures
from tests.performance.drain_latency import DrainFigures, latency
from tests.performance.machine import ROOT, Machine
from tests.performance.placement_results import (
    KEPT_LEASES,
    KEPT_S,
    PlacementResults,
    show,
)
from tests.performance.quick_run import quick_run

BENCH = ROOT / "tests" / "performance" / "placement_bench.py"
LOAD = AgentFigures(
    leases=KEPT_LEASES,
    wall_s=KEPT_S,
    agent_ppm=30_000,
    keepers_ppm=20_000,
    keepers=KEPT_LEASES,
    heartbeats=6,
    usage_records=100,
    others_cores=0.5,
)


@pytest.mark.slow
@pytest.mark.broker
def test_a_quick_run_drains_real_jobs_and_watches_a_real_agent(tmp_path: Path) -> None:
    document = quick_run(BENCH, tmp_path)
    drains, agent = document["drains"], document["agent"]
    assert drains["drains"] == 4
    for times in (drains["own"], drains["agent"], drains["log"]):
        assert 0 < times["p50_ms"] <= times["most_ms"]
        assert times["p99_ms"] is None
    # A device counts as free on the second of two reads, half a second apart.
    assert drains["agent"]["p50_ms"] >= 500
    assert agent["keepers"] == agent["leases"] == 6
    assert agent["heartbeats"] > 0
    assert 0 < agent["agent_ppm"] < 1_000_000
    assert [bound["outcome"] for bound in document["bounds"]] == ["not measured"] * 3


def results(agent: AgentFigures | None, *, quick: bool = False) -> PlacementResults:
    return PlacementResults(
        machine=Machine("cpu", 2, 1.0, "kernel", "python", "java", "kafka", 0.0),
        commit="",
        changed_files=False,
        quick=quick,
        seed=1,
        nodes=1,
        leases=1,
        waiting=1,
        teams=1,
        drains=DrainFigures(3, latency([1.0]), latency([2.0]), latency([3.0])),
        agent=agent,
    )


@pytest.mark.parametrize(
    ("agent", "outcome"),
    [
        (LOAD, "met"),
        (replace(LOAD, agent_ppm=30_100), "missed"),
        (replace(LOAD, leases=KEPT_LEASES - 1), "not measured"),
        (replace(LOAD, wall_s=KEPT_S - 1), "not measured"),
        (None, "not measured"),
    ],
)
def test_three_percent_of_a_core_is_judged_at_a_hundred_leases_over_a_minute(
    agent: AgentFigures | None, outcome: str
) -> None:
    assert results(agent).judgements()[-1].outcome == outcome
    assert results(agent, quick=True).judgements()[-1].outcome == "not measured"
    show(results(agent), Console(quiet=True))


def test_a_p99_is_said_of_a_hundred_drains_and_more_only() -> None:
    times = [float(number) for number in range(1, 101)]
    assert (latency(times).p50_ms, latency(times).p99_ms, latency(times).most_ms) == (50, 99, 100)
    assert latency(times[:-1]).p99_ms is None
