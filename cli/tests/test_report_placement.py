"""Placement and drains in the report: every figure of the tiny log, counted by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from walras.demo.policies import Policies, with_policies
from walras.report import LogRecord, build_report, context_of
from walras.report.context import policies_of
from walras.report.drains import DrainBook
from walras.report.jobs import JobBook
from walras.report.page import page
from walras.report.series import Bins
from walras.report.testing import CONTEXT, START, LogMaker, S, tiny_log
from walras.scenario import load_scenario
from walras.trace import Replay, load_window
from walras_contracts.accounts import Rounding

MINUTE_MS = 60_000
STUCK = "m, waiting for quota: 1 team-cycles, 0.0 acc·h unspent"
FIRST_REPETITION = 8
"""Offset in `leases` from which on the tiny log says things again."""


@pytest.fixture
def report() -> dict[str, Any]:
    return build_report(CONTEXT, tiny_log())


@pytest.fixture(scope="module")
def replay() -> Replay:
    scenario = load_scenario(Path(__file__).parents[2] / "scenarios" / "itp_week.toml")
    return load_window(scenario, 1, 1)


def test_wasted_quota_is_what_was_bought_and_not_occupied_over_time(report: dict[str, Any]) -> None:
    m = report["placement"]["markets"]["m"]
    assert m["bought_macc_ms"] == (8000 + 9000 + 6000) * MINUTE_MS
    assert m["unspent_macc_ms"] == (3000 + 1000 + 500) * MINUTE_MS
    assert m["unspent_share_ppm"] == 4500 * 1_000_000 // 23_000 == 195_652
    # Of it 2000, then all 1000, then nothing could have been used if there had been devices.
    assert m["unspent_why"] == {
        "short_of_devices_macc_ms": 3000 * MINUTE_MS,
        "no_fitting_job_macc_ms": 1500 * MINUTE_MS,
    }
    assert (m["cycles"], m["cycles_with_unplaced_jobs"]) == (3, 2)
    assert m["rounding"] == "backfill, release"
    assert m["stuck_heads"] == {
        "waiting_for_quota": {"cycles": 1, "unspent_macc_ms": 500 * MINUTE_MS}
    }


def test_what_stands_where_the_window_ends_does_not_count_what_was_counted_there_does(
    report: dict[str, Any],
) -> None:
    m = report["placement"]["markets"]["m"]
    assert m["started_jobs"] == 1 + 1 + 1 + 2
    assert m["held_macc_ms"] == (5000 + 8000) * MINUTE_MS
    assert report["placement"]["markets"]["n"]["usable_macc_ms"] == 7000 * 2 * MINUTE_MS


def test_jobs_without_devices_are_told_by_cell_and_by_the_devices_they_need(
    report: dict[str, Any],
) -> None:
    m = report["placement"]["markets"]["m"]
    assert m["unplaced_by_cell"] == [
        {
            "cell": "c1",
            "cycles": 2,
            "job_ms": 3 * MINUTE_MS,
            "macc_ms": 5000 * MINUTE_MS,
            "longest_wait_ms": 60 * S,
        },
        {
            "cell": "c2",
            "cycles": 1,
            "job_ms": MINUTE_MS,
            "macc_ms": 2000 * MINUTE_MS,
            "longest_wait_ms": 90 * S,
        },
    ]
    geometries = {(g["cell"], g["devices"]): g for g in m["unplaced_by_geometry"]}
    assert list(geometries) == [("c1", 1), ("c1", 2), ("c2", 2)]
    assert (geometries["c1", 2]["cycles"], geometries["c1", 2]["job_ms"]) == (2, 2 * MINUTE_MS)
    # One more job waited in minute 2 than the list had room for.
    assert m["unplaced_unlisted_macc_ms"] == 1000 * MINUTE_MS
    assert (m["gang_wait_most_ms"], m["gangs_waiting_ms"]) == (90 * S, 3 * MINUTE_MS)


def test_the_total_is_over_all_markets(report: dict[str, Any]) -> None:
    total = report["placement"]["total"]
    assert total["bought_macc_ms"] == (8000 + 9000 + 6000 + 2 * 2000) * MINUTE_MS
    assert total["unspent_share_ppm"] == 4500 * 1_000_000 // 27_000
    assert (total["market_cycles"], total["market_cycles_with_unplaced_jobs"]) == (4, 2)
    assert (total["kept_jobs"], total["vacated_jobs"], total["deadline_misses"]) == (1, 2, 1)
    assert (total["preemption_cycles_detected"], total["held_back_jobs_ms"]) == (1, 3 * MINUTE_MS)
    assert total["gang_wait_most_ms"] == 90 * S


def test_leases_are_told_by_their_ends_and_vacates_by_their_reasons(report: dict[str, Any]) -> None:
    leases = report["placement"]["leases"]
    assert (leases["granted"], leases["started"]) == (7, 6)
    assert leases["ended"] == {"failed": 1, "finished": 1, "open": 2, "vacated": 3}
    assert leases["asked_to_leave"] == {
        "cancelled": 1,
        "pressure": 1,
        "price_above_limit": 1,
        "quota_lost": 2,
    }
    assert leases["allowed_to_stay"] == 1


def test_lost_work_is_what_has_to_be_done_again(report: dict[str, Any]) -> None:
    leases = report["placement"]["leases"]
    assert leases["preempted_by_reason"] == {
        "cancelled": {
            "leases": 1,
            "ran_macc_ms": 10_000_000,
            "repeated_macc_ms": 10_000_000,
            "unsaved_macc_ms": 10_000_000,
        },
        "price_above_limit": {
            "leases": 1,
            "ran_macc_ms": 120_000_000,
            "repeated_macc_ms": 20_000_000,
            "unsaved_macc_ms": 0,
        },
        # The last request counts: it was asked because of pressure first.
        "quota_lost": {
            "leases": 1,
            "ran_macc_ms": 270_000_000,
            "repeated_macc_ms": 270_000_000,
            "unsaved_macc_ms": 270_000_000,
        },
    }
    # What a team takes back itself is no preemption.
    assert leases["preempted"] == {
        "leases": 2,
        "ran_macc_ms": 390_000_000,
        "repeated_macc_ms": 290_000_000,
        "unsaved_macc_ms": 270_000_000,
    }
    assert (leases["failed"]["leases"], leases["failed"]["ran_macc_ms"]) == (1, 30_000_000)


def test_waits_are_told_by_start_by_gang_and_by_reason(report: dict[str, Any]) -> None:
    waits = report["placement"]["waits"]
    assert waits["starts"] == 4
    assert waits["wait_per_start_ms"] == {
        "p50": 60_000,
        "p90": 170_000,
        "p99": 170_000,
        "max": 170_000,
    }
    # j1 and j3 need more than one accelerator.
    assert (waits["wait_of_gangs_ms"]["jobs"], waits["wait_of_gangs_ms"]["max"]) == (2, 60_000)
    assert waits["wait_of_finished_ms"]["jobs"] == 1
    assert waits["by_reason"] == {
        # j5, until the window ends.
        "price_above_limit": {"job_ms": 120_000, "macc_ms": 120_000_000},
        # j2 for 170 s, j3 (2 accelerators) for 60 s, j4 for 90 s.
        "waiting_for_quota": {"job_ms": 320_000, "macc_ms": 380_000_000},
    }


def test_a_restart_waits_from_the_end_of_the_run_before() -> None:
    log = LogMaker()
    for state, at_s, waited_s in (
        *(("pending", 0, 0), ("pending", 20, 20), ("running", 40, 40), ("draining", 50, 40)),
        *(("running", 60, 40), ("pending", 90, 40), ("running", 100, 50), ("finished", 110, 50)),
    ):
        body = {"team": "a", "state": state, "reason": "r" if state == "pending" else ""}
        times = {"waited_ms": waited_s * S, "changed_ms": START + at_s * S}
        log.put("job.status", "walras.job.status.v1", "a/j", {**body, **times})
    book = JobBook(Bins.over(START, START + 180 * S))
    book.fold_status(log.topics["job.status"])
    waits = book.wait_report()
    # It was allowed to stay in between: that is no start.
    assert waits["starts"] == 2
    assert waits["wait_per_start_ms"]["p50"] == 10_000
    assert waits["wait_of_finished_ms"]["p50"] == 50_000
    assert waits["by_reason"]["r"]["job_ms"] == 50_000


def test_drain_sessions_are_told_by_end_and_cause(report: dict[str, Any]) -> None:
    drains = report["drains"]
    assert (drains["sessions"], drains["begun"]) == (6, 4)
    assert drains["ended"] == {
        "called_off": 1,
        "cancelled": 1,
        "failed: agent_lost": 1,
        "freed": 2,
        "open": 1,
    }
    assert drains["by_reason"] == {
        "pressure": {"called_off": 1, "failed: agent_lost": 1, "open": 1},
        "price_above_limit": {"freed": 1},
        "quota_lost": {"cancelled": 1, "freed": 1},
    }
    assert (drains["forced"], drains["cancels_rejected"]) == (1, 0)


def test_drain_times_run_from_the_command_to_the_last_freed_part(report: dict[str, Any]) -> None:
    drains = report["drains"]
    assert drains["time_to_free_ms"] == {
        "sessions": 2,
        "p50": 10_000,
        "p90": 10_000,
        "p99": 10_000,
        "max": 10_000,
    }
    assert (drains["time_allowed_ms"]["p50"], drains["time_allowed_ms"]["max"]) == (5000, 180_000)
    assert drains["used_of_allowed_ppm"]["p50"] == 10 * 1_000_000 // 180
    assert drains["used_of_allowed_ppm"]["max"] == 2_000_000
    assert drains["freed_after_deadline"] == 1


@pytest.mark.parametrize(("allowed_ms", "took_ms"), [(0, 1), (2_000_000, 2_000_001)])
def test_a_part_that_is_freed_a_moment_after_the_deadline_is_late(
    allowed_ms: int, took_ms: int
) -> None:
    log = LogMaker()
    times = {"opened_ms": START, "commanded_ms": START, "changed_ms": START + took_ms}
    for session, late in (("s1", took_ms), ("s2", allowed_ms)):
        said = {"session": session, "state": "freed", "outcome": "", "at_ms": START + late}
        log.put("drain.status", "walras.drain.status.v1", f"{session}/n1", said)
        words = {"state": "freed", "outcome": "", "reason": "pressure", "blockers": []}
        terms = {"beyond_budget": False, "deadline_ms": START + allowed_ms}
        body = {"session": session, **words, **times, **terms}
        log.put("drain.sessions", "walras.drain.session.v1", session, body)
    book = DrainBook(START + took_ms)
    book.fold_status(log.topics["drain.status"])
    book.fold_sessions(log.topics["drain.sessions"])
    assert book.report()["freed_after_deadline"] == 1


def test_frequency_caps_tell_who_was_held_up_and_for_how_long(report: dict[str, Any]) -> None:
    assert report["drains"]["caps"] == {
        "sessions_held_up": 3,
        "by_budget": 2,
        "by_distance": 2,
        "held_up_ms": {"p50": 60_000, "p90": 80_000, "p99": 80_000, "max": 80_000},
        "begun_beyond_budget": 1,
    }


@pytest.mark.parametrize(
    ("topic", "key", "falsified", "figure"),
    [
        ("placement.figures", "m/1", {"unspent_macc": 1001}, "placement.total.unspent_macc_ms"),
        ("placement.figures", "m/1", {"unplaced": []}, "placement.markets.m.unplaced_by_cell"),
        ("placement.figures", "m/3", {"started_jobs": 3}, "placement.total.started_jobs"),
        ("placement.figures", "m/0", {"gang_wait_ms": 90_001}, "placement.total.gang_wait_most_ms"),
        ("leases", "l3/n1", {"remaining_run_ms": 1}, "placement.leases.preempted"),
        ("leases", "l2/n2", {"drainability": "checkpoint"}, "placement.leases.preempted"),
        ("vacate", "l3", {"reason": "ordered"}, "placement.leases.preempted_by_reason"),
        ("lease.status", "l2/n2", {"at_ms": START}, "placement.leases.preempted"),
        ("lease.status", "l6/n2", {"outcome": "lost"}, "placement.leases.ended"),
        ("job.status", "b/j5", {"reason": "parked"}, "placement.waits.by_reason"),
        ("job.status", "b/j4", {"waited_ms": 1}, "placement.waits.wait_per_start_ms"),
        ("drain.status", "s1/n2", {"at_ms": START + 101 * S}, "drains.time_to_free_ms"),
        ("drain.status", "s2/n1", {"session": "s1"}, "drains.time_to_free_ms"),
        ("drain.sessions", "s2", {"deadline_ms": START + 90 * S}, "drains.freed_after_deadline"),
        ("drain.sessions", "s3", {"reason": "pressure"}, "drains.by_reason"),
        ("drain.sessions", "s4", {"changed_ms": START}, "drains.caps"),
        ("drain.sessions", "s5", {"outcome": "device_not_freed"}, "drains.ended"),
    ],
)
def test_canary_a_falsified_record_changes_its_figure(
    report: dict[str, Any], topic: str, key: str, falsified: dict[str, Any], figure: str
) -> None:
    log = tiny_log()
    number = max(
        i for i, r in enumerate(log[topic]) if r.key == key and r.value is not None and _counts(r)
    )
    body = json.loads(log[topic][number].value or b"")
    assert body.keys() >= falsified.keys()
    log[topic][number] = replace(
        log[topic][number], value=json.dumps({**body, **falsified}).encode()
    )
    assert _at(build_report(CONTEXT, log), figure) != _at(report, figure)


def _counts(record: LogRecord) -> bool:
    """Whether it is more than the last of several that say the same of a lease."""
    return record.topic != "leases" or record.offset < FIRST_REPETITION


def _at(report: Any, figure: str) -> Any:
    for name in figure.split("."):
        report = report[name]
    return report


def test_the_page_tells_the_figures_and_escapes_what_it_is_told(report: dict[str, Any]) -> None:
    html = page(report)
    section = html[html.index('<section id="placement">') : html.index('<section id="money">')]
    lost = "290 repeated, 270 of it by jobs that save nothing"
    for words in ("16.7 %", lost, "agent lost", STUCK):
        assert words in section, words
    named = {**report["placement"]["markets"], "<m>": report["placement"]["markets"]["m"]}
    odd = {**report, "placement": {**report["placement"], "markets": named}}
    assert "<m>" not in page(odd)


# Policies.


def test_policies_change_their_terms_and_nothing_else(replay: Replay) -> None:
    changed = with_policies(replay, Policies(Rounding.RESERVE, 0))
    assert policies_of(changed.accounts) == {"rounding": "reserve", "retention_gap_ppm": 0}
    assert policies_of(replay.accounts) == {"rounding": "backfill", "retention_gap_ppm": 100_000}
    assert with_policies(changed, Policies(Rounding.BACKFILL, 100_000)) == replay
    assert with_policies(replay, Policies()) == replay
    assert replace(changed, accounts=replay.accounts) == replay


def test_a_retention_gap_out_of_range_is_refused(replay: Replay) -> None:
    with pytest.raises(ValueError, match="retention_gap_ppm"):
        with_policies(replay, Policies(None, -1))


def test_the_context_tells_policies_and_markets_that_differ_apart(replay: Replay) -> None:
    assert context_of(replay).policies["rounding"] == "backfill"
    reserve = with_policies(replay, Policies(Rounding.RESERVE)).accounts
    mixed = (*replay.accounts[:2], *reserve[2:])
    assert policies_of(mixed) == {
        "rounding of a100-80gb": "reserve",
        "rounding of h100-80gb": "backfill",
        "rounding of v100-32gb": "reserve",
        "retention_gap_ppm": 100_000,
    }
