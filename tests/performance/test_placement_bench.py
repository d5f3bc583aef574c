"""The placement bench works: it measures everything, and judges only what was measured at size."""

from dataclasses import replace

from rich.console import Console

from tests.performance.machine import Machine
from tests.performance.placement_bench import PLAN_PARTS, measure, quick_plan
from tests.performance.placement_results import (
    LEASES,
    NODES,
    PlacementResults,
    PlanFigures,
    show,
)
from tests.performance.samples import Spread

MACHINE = Machine("cpu", 2, 1.0, "kernel", "python", "java", "kafka", 0.0)
FIGURES = PlanFigures(3, Spread(90.0, 80.0, 100.0, 1.0), None, 7)


def results(changes: PlanFigures | None, whole: PlanFigures | None) -> PlacementResults:
    return PlacementResults(
        machine=MACHINE,
        commit="",
        changed_files=False,
        quick=False,
        seed=1,
        nodes=NODES,
        leases=LEASES,
        waiting=1,
        teams=1,
        filling=FIGURES,
        changes=changes,
        whole=whole,
    )


def outcomes(found: PlacementResults) -> list[str]:
    return [judgement.outcome for judgement in found.judgements()]


def test_a_quick_run_measures_every_plan() -> None:
    what = quick_plan(1)
    figures = measure(what, frozenset(PLAN_PARTS), lambda _: None)
    assert figures.keys() == {"filling", *PLAN_PARTS}
    assert figures["changes"].plans == what.steps
    assert figures["whole"].plans == what.restarts
    assert figures["whole"].teams_looked_at == what.teams
    assert figures["filling"].step_ms is None
    for name in PLAN_PARTS:
        step_ms = figures[name].step_ms
        assert step_ms is not None
        assert 0 < figures[name].plan_ms.least <= figures[name].plan_ms.most < step_ms.most


def test_bounds_are_judged_at_full_size_and_by_the_slowest_plan() -> None:
    late = replace(FIGURES, plan_ms=Spread(90.0, 80.0, 201.0, 1.0))
    assert outcomes(results(late, FIGURES)) == ["missed", "met", "not measured"]
    assert outcomes(results(FIGURES, None)) == ["met", "not measured", "not measured"]
    small = replace(results(FIGURES, FIGURES), nodes=NODES - 1)
    assert outcomes(small) == ["not measured"] * 3
    assert small.document()["bench"] == "placement"
    show(small, Console(quiet=True))
