"""Policies are compared by figures that follow from the log alone, and the pages tell them."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.performance.machine import Machine
from tests.performance.policy_compare import SCENARIO, RunBrokenError, compare, main
from tests.performance.policy_figures import FIGURES, GROUPS, RunFigures, figures_of, same_decisions
from tests.performance.policy_page import Comparison, comparison_page, show, write
from tests.performance.policy_replay import PolicyRun, all_runs, replay_report
from tests.simulation.world import World
from walras.report.drains import BUDGET_WORDS
from walras.scenario import load_scenario
from walras.trace import load_window
from walras_contracts.accounts import DrainTerms, Rounding
from walras_contracts.event import Event
from walras_contracts.registry import decode_inner
from walras_drain.guardrail import Begun, verdict

STEPS = 12
RUN = PolicyRun(SCENARIO, 1, 1, Rounding.BACKFILL, 100_000, STEPS)
MACHINE = Machine("cpu <of two>", 2, 1.0, "kernel", "python", "java", "kafka", 0.0)

Report = dict[str, Any]


def silent(done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of a few minutes of the trace."""
    found = replay_report(RUN, tmp_path_factory.mktemp("replay"), silent)
    found["run"]["seconds"] = 1
    return found


@pytest.fixture(scope="module")
def events() -> dict[str, list[Event]]:
    """Return what the same minutes put on a log that is kept as it is, decoded."""
    replay = load_window(load_scenario(SCENARIO), 1, 1)
    world = World(partitions=replay.scenario.log.partitions)
    for number in world.replay(replay):
        if number == STEPS:
            break
    found: dict[str, list[Event]] = {}
    for (topic, _), entries in world.log.entries.items():
        for e in entries:
            if e.barrier is None and e.payload is not None and not topic.startswith("state."):
                found.setdefault(topic, []).append(decode_inner(e.type, e.payload))
    return found


def comparison(runs: tuple[RunFigures, ...]) -> Comparison:
    return Comparison(
        machine=MACHINE,
        commit="abc",
        changed_files=False,
        quick=False,
        seed=1,
        scenario="itp_week",
        hours=1,
        workers=2,
        seconds=9,
        runs=runs,
    )


def six(report: Report) -> tuple[RunFigures, ...]:
    return tuple(figures_of(run, report) for run in all_runs(SCENARIO, 1, 1))


def test_the_same_seed_gives_the_same_figures(report: Report, tmp_path: Path) -> None:
    first, other = compare(
        [RUN, replace(RUN, seed=2, retention_gap_ppm=0)], tmp_path, 2, lambda *_: None
    )
    assert first.values == figures_of(RUN, report).values
    assert first.digests == report["digests"]
    assert other.values != first.values
    written = json.loads((tmp_path / RUN.name / "report.json").read_text("utf-8"))
    for name in ("placement", "drains", "jobs", "occupancy", "prices", "digests"):
        assert written[name] == json.loads(json.dumps(report[name])), name


def test_the_section_agrees_with_a_count_of_the_events_themselves(
    report: Report, events: dict[str, list[Any]]
) -> None:
    leases = {event.lease for event in events["leases"]}
    vacates = [e for e in events["vacate"] if e.TYPE == "walras.vacate.requested.v1"]
    placement, drains = report["placement"], report["drains"]
    assert placement["leases"]["granted"] == len(leases) > 300
    assert placement["total"]["started_jobs"] == placement["waits"]["starts"] == len(leases)
    assert placement["leases"]["asked_to_leave"] == Counter(e.reason.value for e in vacates)
    assert placement["total"]["vacated_jobs"] == len(vacates) > 0
    measured: dict[str, list[Any]] = {}
    for event in events["placement.figures"]:
        measured.setdefault(event.market, []).append(event)
    # Every minute has figures; those of the last one hold to the end of its interval.
    unspent = sum(e.unspent_macc for found in measured.values() for e in found)
    assert placement["total"]["unspent_macc_ms"] == unspent * 60_000 > 0
    last = {event.session: event for event in events["drain.sessions"]}
    assert drains["begun"] == sum(e.commanded_ms is not None for e in last.values()) > 0
    freed = {e.session: e.at_ms for e in events["drain.status"] if e.state.value == "freed"}
    took = [
        freed[e.session] - e.commanded_ms
        for e in last.values()
        if e.state.value == "freed" and e.commanded_ms is not None
    ]
    assert drains["time_to_free_ms"]["sessions"] == len(took)
    assert drains["time_to_free_ms"]["max"] == max(took)
    # All that declares to save had the time to: what begins anew is what saves nothing.
    preempted = placement["leases"]["preempted"]
    assert preempted["repeated_macc_ms"] == preempted["unsaved_macc_ms"] > 0
    assert preempted["ran_macc_ms"] > preempted["repeated_macc_ms"]


def test_sessions_are_held_up_where_the_drain_service_says_for_what_they_wait(
    report: Report, events: dict[str, list[Any]]
) -> None:
    pending = [e for e in events["drain.sessions"] if e.state.value == "pending" and e.blockers]
    caps = report["drains"]["caps"]
    assert caps["sessions_held_up"] == len({event.session for event in pending}) > 0


@pytest.mark.parametrize(
    ("begun_job", "size_macc", "behind", "by_budget"),
    [("j", 1000, False, False), ("other", 9000, False, True), ("other", 1000, True, True)],
)
def test_the_words_of_the_drain_service_tell_a_budget_from_a_distance(
    begun_job: str, size_macc: int, behind: bool, by_budget: bool
) -> None:
    found = verdict(
        terms=DrainTerms(),
        now_ms=60_000,
        team="t",
        job="j",
        size_macc=size_macc,
        held_macc=10_000,
        begun=[Begun(0, 1000, begun_job, "s")],
        waited_ms=0,
        may_wait=True,
        behind=behind,
    )
    assert not found.begins
    assert found.held_up_by.startswith(BUDGET_WORDS) is by_budget


def test_when_a_run_breaks_the_others_are_stopped_and_its_error_is_told(tmp_path: Path) -> None:
    whole_day = replace(RUN, hours=24, steps=None)
    missing = replace(whole_day, scenario=tmp_path / "none.toml", retention_gap_ppm=0)
    with pytest.raises(RunBrokenError, match=r"(?s)^backfill-none: .*ScenarioError.*none\.toml"):
        compare([whole_day, missing], tmp_path, 2, lambda *_: None)
    assert not (tmp_path / whole_day.name / "report.json").exists()


def test_every_rounding_runs_with_retention_and_without() -> None:
    runs = all_runs(SCENARIO, 6, 3)
    assert len({run.name for run in runs}) == len(runs) == 2 * len(Rounding)
    assert {run.rounding for run in runs} == set(Rounding)
    assert {run.retention_gap_ppm for run in runs} == {0, 100_000}
    assert {(run.hours, run.seed) for run in runs} == {(6, 3)}


def test_runs_that_decided_the_same_are_named(report: Report) -> None:
    one, two, three, *_ = six(report)
    assert same_decisions((one, two)) == [("backfill-retention", "backfill-none")]
    other = replace(three, digests={**three.digests, "quotas": "other"})
    assert same_decisions((one, other)) == []
    # Cycle records name the policies, so they differ where nothing else does.
    named = replace(three, digests={**three.digests, "cycles": "other"})
    assert same_decisions((one, named)) == [("backfill-retention", "reserve-retention")]


def test_the_page_draws_every_figure_of_every_run_and_loads_nothing(
    report: Report, tmp_path: Path
) -> None:
    results = comparison(six(report))
    document, page = write(results, tmp_path)
    html = page.read_text("utf-8")
    assert html.count("<svg") == len(FIGURES)
    for title in GROUPS:
        assert f"<h2>{title}</h2>" in html
    for found in results.runs:
        assert f'href="{found.run.name}/report.html"' in html
    assert "cpu &lt;of two&gt;" in html
    assert not re.search(r"https?://|@import|url\(|<script|<link", html)
    assert not re.search(r'="[^"]*(nan|inf|None)[^"]*"', html)
    read = json.loads(document.read_text("utf-8"))
    assert read["bench"] == "policies"
    assert [run["figures"] for run in read["runs"]] == [dict(f.values) for f in results.runs]
    assert len(read["same_decisions"][0]) == len(results.runs)


def test_a_figure_that_is_not_there_is_told_as_such(report: Report) -> None:
    found = figures_of(RUN, report)
    nothing = replace(found, values=dict.fromkeys(found.values))
    assert "–" in comparison_page(comparison((nothing,)))
    show(comparison((nothing, found)), Console(quiet=True))


def test_hours_beyond_the_trace_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--hours", "169", "--workers", "1", "--out", str(tmp_path)]) == 2
    assert "compare-policies: " in capsys.readouterr().err


@pytest.mark.slow
def test_a_comparison_of_an_hour_tells_all_six_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--hours", "1", "--out", str(tmp_path), "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert [run["name"] for run in read["runs"]] == [r.name for r in all_runs(SCENARIO, 1, 1)]
    for run in read["runs"]:
        assert (tmp_path / run["name"] / "report.html").is_file()
        assert run["figures"]["finished"] > 0
        assert (run["figures"]["cuts"] > 0) is (run["rounding"] == Rounding.RELEASE), run["name"]
    digests = [run["digests"]["quotas"] for run in read["runs"]]
    assert len(set(digests)) > 1, "no policy made a difference"
