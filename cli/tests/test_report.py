"""Every figure of a tiny log, computed by hand; see the comments at the numbers."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras.billing_log.amounts import half_even
from walras.report import LogRecord, ReportError, build_report, context_of
from walras.report.page import page
from walras.report.series import Bins, nearest_rank
from walras.report.testing import CONTEXT, START, S, tiny_log
from walras.scenario import load_scenario
from walras.trace import load_window
from walras_contracts.market import CycleRecorded

CLEARED_CYCLE = Path(__file__).parents[2] / "schemas/examples/cycle.recorded.v1/cleared.json"


@pytest.fixture
def report() -> dict[str, Any]:
    return build_report(CONTEXT, tiny_log())


def test_the_window_ends_with_the_interval_of_the_last_cycle(report: dict[str, Any]) -> None:
    assert report["window"]["covered_until_ms"] == START + 180 * S
    assert report["window"]["complete"] is False
    assert report["bins"] == {
        "width_ms": 60_000,
        "starts_ms": [START, START + 60_000, START + 120_000],
    }


def test_events_are_counted_per_topic_and_type(report: dict[str, Any]) -> None:
    assert report["events"]["demand"] == {
        "events": 7,
        "by_type": {"walras.job.cancelled.v1": 1, "walras.job.submitted.v1": 6},
        "tombstones": 0,
        "barriers": 6,
    }
    assert report["events"]["vacate"]["events"] == 6
    assert report["events"]["job.status"]["tombstones"] == 1
    assert report["events"]["quotas"] == {
        "events": 3,
        "by_type": {"walras.quota.granted.v1": 3},
        "tombstones": 0,
        "barriers": 3,
    }


def test_what_a_start_pays_for_behind_its_end_is_paid_and_no_occupancy(
    report: dict[str, Any],
) -> None:
    topics = tiny_log()
    record = next(r for r in topics["usage"] if r.key == "a/60")
    rest = {**record.body(), "running_ms": 0}
    topics["usage"] = [*topics["usage"], replace(record, value=json.dumps(rest).encode())]
    found = build_report(CONTEXT, topics)

    assert found["occupancy"] == report["occupancy"]
    before, after = report["teams"][0], found["teams"][0]
    told = {name for name in after if after[name] != before[name]}
    assert told == {"rated_micro", "idle_paid_macc_ms", "mean_price_micro", "price_ratio_ppm"}
    assert (before["idle_paid_macc_ms"], after["idle_paid_macc_ms"]) == (0, 240_000_000)
    twice = {**record.body(), "running_ms": 60_000}
    topics["usage"][-1] = replace(record, value=json.dumps(twice).encode())
    assert build_report(CONTEXT, topics)["teams"][0]["rated_micro"] == after["rated_micro"]


def test_occupancy_is_leased_over_supplied_time(report: dict[str, Any]) -> None:
    found = report["occupancy"]
    # Supply: 10,000 macc for 180 s; what is withheld is no supply.
    assert found["supplied_macc_ms"] == 1_800_000_000
    # a: 4 × 120 s + 1 × 10 s + 1 × 10 s = 500; b: 2 × 120 s + 1 × 60 s = 300, in accelerator·s.
    assert found["leased_macc_ms"] == 800_000_000
    assert found["occupancy_ppm"] == 444_444
    assert found["opportunistic_share_ppm"] == 75_000  # 60 of 800
    market = found["markets"]["m"]
    assert market["overhang_share_ppm"] == 12_500  # 10 of 800
    # Minute 3: b 2000 + 1000, a (1000 × 10 s + 1000 × 10 s) / 60 s.
    assert market["leased_macc"] == [4000, 6000, 3333]
    assert market["opportunistic_macc"] == [0, 0, 1000]
    assert market["overhang_macc"] == [0, 0, 166]
    assert market["supply_macc"] == [10_000] * 3
    assert market["demand_macc"] == [8000, 8001, 8002]


def test_prices_are_told_per_market_and_bin(report: dict[str, Any]) -> None:
    found = report["prices"]["m"]
    assert found["cycles"] == 3
    assert found["cycles_above_zero_ppm"] == 666_666
    assert (found["minimum_micro"], found["maximum_micro"]) == (0, 3_000_000)
    assert (found["median_micro"], found["mean_micro"]) == (2_000_000, 1_666_666)
    assert found["reference_micro"] == [0, 2_000_000, 3_000_000]
    assert found["pools"]["k1"] == [0, 1_000_000, 1_500_000]


def test_use_is_rated_at_the_price_in_force_and_at_most_at_the_limit(
    report: dict[str, Any],
) -> None:
    a, b, c = report["teams"]
    assert [row["team"] for row in (a, b, c)] == ["a", "b", "c"]
    # a: 0 + 4 × 1/60 h × 1 cr + 1 × 10/3600 h × 1.5 cr = 70,833.33 µcr on 490 accelerator·s; what
    # is not billable (10 s) has no part in the mean price: 70,833.33 / (490 / 3600 h) = 520,408.2.
    assert a["rated_micro"] == 70_833
    assert a["mean_price_micro"] == 520_408
    # b: 2 × 1/60 h × 2 cr + 2 × 1/60 h × 2.5 cr (the limit; the price is 3) = 150,000 µcr.
    assert b["rated_micro"] == 150_000
    assert b["mean_price_micro"] == 2_250_000
    # All: 220,833.33 / (730 / 3600 h) = 1,089,041.1.
    assert report["fairness"]["global_mean_price_micro"] == 1_089_041
    assert a["price_ratio_ppm"] == 520_408 * 1_000_000 // 1_089_041 == 477_858
    assert b["price_ratio_ppm"] == 2_066_037
    assert c["mean_price_micro"] is None
    assert (a["unpriced_macc_ms"], b["unpriced_macc_ms"]) == (0, 0)


def test_shares_and_their_max_min_ratio_leave_out_teams_without_jobs(
    report: dict[str, Any],
) -> None:
    a, b, c = report["teams"]
    assert (a["share_of_income_ppm"], b["share_of_income_ppm"]) == (750_000, 250_000)
    assert (a["share_of_use_ppm"], b["share_of_use_ppm"]) == (625_000, 375_000)
    assert (a["share_ratio_ppm"], b["share_ratio_ppm"]) == (833_333, 1_500_000)
    assert c["share_of_use_ppm"] == 0
    assert c["income_micro"] is None
    assert report["fairness"]["max_min_share_ratio_ppm"] == 1_800_000
    assert report["fairness"]["price_ratio_maximum_ppm"] == 2_066_037


def test_money_is_that_of_the_last_settlement(report: dict[str, Any]) -> None:
    a = report["teams"][0]
    assert (a["income_micro"], a["spent_micro"], a["wallet_micro"]) == (
        3_000_000,
        70_000,
        2_930_000,
    )
    assert report["settled_until_ms"] == START + 300 * S


def test_waits_and_the_queue_follow_the_job_states(report: dict[str, Any]) -> None:
    jobs = report["jobs"]
    assert (jobs["submitted"], jobs["undecodable_submissions"]) == (5, 1)
    assert (jobs["started"], jobs["finished"], jobs["waiting_at_end"]) == (4, 1, 1)
    assert jobs["running_at_end"] == 3
    # Waits 0, 60, 90, 170 s: nearest ranks 2, 4, 4.
    assert jobs["wait_to_first_start_ms"] == {
        "jobs": 4,
        "p50": 60_000,
        "p90": 170_000,
        "p99": 170_000,
        "max": 170_000,
    }
    assert jobs["wait_so_far_of_never_started_ms"]["max"] == 120_000
    # Minute 1: j2, j3, j4 wait; minute 2: j2, j4, j5; minute 3: j5.
    assert jobs["queue"]["jobs"] == [3, 3, 1]
    assert jobs["queue"]["accelerators_milli"] == [4000, 3000, 1000]
    assert jobs["reasons_for_waiting"] == {"price_above_limit": 1, "waiting_for_quota": 3}
    assert report["teams"][1]["wait_to_first_start_ms"]["p50"] == 60_000
    assert report["teams"][1]["jobs_submitted"] == 3


def test_tick_to_commit_runs_from_the_earliest_barrier_to_the_commit_told_by_the_next(
    report: dict[str, Any],
) -> None:
    # Barrier 0: 1040 - 1000; barrier 1: 2100 - 2000; nobody told the commit of barrier 2.
    latency = report["latency"]
    assert latency["barriers"] == 2
    assert latency["tick_to_commit_ms"] == {"p50": 40, "p90": 100, "p99": 100, "max": 100}
    assert set(latency["backward"].values()) == {0}


def test_a_barrier_is_known_by_its_payload_since_keys_come_round_again() -> None:
    log = tiny_log()
    log["quotas"] = [
        replace(r, key=r.key.replace("~barrier/2", "~barrier/0")) for r in log["quotas"]
    ]
    assert build_report(CONTEXT, log)["latency"]["barriers"] == 2
    log["quotas"] = [replace(r, value=b"{}") if r.key.startswith("~") else r for r in log["quotas"]]
    with pytest.raises(ReportError, match=r"quotas/0@\d+: '~barrier/1' is not a barrier"):
        build_report(CONTEXT, log)


def test_a_commit_before_its_tick_is_counted_and_is_in_no_percentile() -> None:
    log = tiny_log()
    log["quotas"] = [
        replace(record, headers={"walras_previous_commit_ms": b"990"})
        if record.key == "~barrier/1"
        else record
        for record in log["quotas"]
    ]
    latency = build_report(CONTEXT, log)["latency"]
    assert latency["backward"] == {"queue": 0, "quotas": 1, "leases": 0, "fleet.done": 0}
    assert latency["barriers"] == 1
    assert latency["tick_to_commit_ms"] == {"p50": 100, "p90": 100, "p99": 100, "max": 100}
    assert latency["hops_ms"]["quotas"]["p50"] == 100


def test_cycles_are_dense_until_one_is_missing_or_doubled(report: dict[str, Any]) -> None:
    assert report["cycles"]["dense"] is True
    assert report["cycles"]["markets"]["m"] == {
        "count": 3,
        "first": 0,
        "last": 2,
        "missing": 0,
        "doubled": 0,
        "released": {},
        "states": {"cleared": 3},
    }
    log = tiny_log()
    log["cycles"] = [record for record in log["cycles"] if record.key != "m/1"]
    gap = build_report(CONTEXT, log)["cycles"]
    assert (gap["dense"], gap["markets"]["m"]["missing"]) == (False, 1)
    log = tiny_log()
    log["cycles"] += [log["cycles"][0]]
    twice = build_report(CONTEXT, log)["cycles"]
    assert (twice["dense"], twice["markets"]["m"]["doubled"]) == (False, 1)


def test_demand_that_was_cut_is_counted_by_what_was_left_of_it() -> None:
    log, example = tiny_log(), json.loads(CLEARED_CYCLE.read_text("utf-8"))
    for cycle, extents in ((1, ("running",)), (2, ("whole_jobs", "running"))):
        number = next(i for i, r in enumerate(log["cycles"]) if r.key == f"m/{cycle}")
        cuts = [{**example["released"][0], "extent": extent} for extent in extents]
        document = {**example, "cycle": cycle, "released": cuts}
        value = CycleRecorded.model_validate(document).payload()
        log["cycles"][number] = replace(log["cycles"][number], value=value)
    report = build_report(CONTEXT, log)
    assert report["cycles"]["markets"]["m"]["released"] == {"running": 2, "whole_jobs": 1}
    assert "Demand cut by rounding release: m: 2 to running; m: 1 to whole jobs." in page(report)


def test_the_report_is_a_function_of_the_log(report: dict[str, Any]) -> None:
    lazy: dict[str, Iterable[LogRecord]] = {
        topic: iter(records) for topic, records in tiny_log().items()
    }
    assert build_report(CONTEXT, lazy) == report


# Faults.


def test_a_log_without_a_needed_topic_is_refused_by_name() -> None:
    log = tiny_log()
    del log["usage"], log["prices"]
    with pytest.raises(ReportError, match="lacks the topics prices, usage"):
        build_report(CONTEXT, log)


def test_a_log_without_a_cycle_is_refused() -> None:
    log = tiny_log()
    log["cycles"] = []
    with pytest.raises(ReportError, match="no cycle was decided"):
        build_report(CONTEXT, log)


def test_an_unreadable_record_of_a_service_is_refused_with_its_coordinates() -> None:
    log = tiny_log()
    log["usage"][2] = replace(log["usage"][2], value=b"{")
    with pytest.raises(ReportError, match="usage/0@2"):
        build_report(CONTEXT, log)


def test_use_before_the_first_price_is_told_apart_and_costs_nothing() -> None:
    log = tiny_log()
    log["prices"] = [r for r in log["prices"] if r.offset > 0]
    a = build_report(CONTEXT, log)["teams"][0]
    assert a["unpriced_macc_ms"] == 4000 * 60 * S
    assert a["rated_micro"] == 70_833
    # The unpriced minute has no part in the mean price either: 70,833.33 / (250 / 3600 h).
    assert a["mean_price_micro"] == 1_020_000


# Arithmetic.


@given(st.integers(0, 10**30), st.integers(1, 10**15))
def test_half_even_is_the_nearest_integer_and_even_on_ties(
    numerator: int, denominator: int
) -> None:
    rounded = half_even(numerator, denominator)
    distance = abs(2 * (rounded * denominator - numerator))
    assert distance <= denominator
    if distance == denominator:
        assert rounded % 2 == 0


@given(
    st.integers(1, 40),
    st.integers(-50 * 60_000, 50 * 60_000),
    st.integers(0, 60 * 60_000),
    st.integers(1, 10_000),
)
def test_bins_lose_nothing_inside_the_window(
    minutes: int, start_ms: int, length_ms: int, rate: int
) -> None:
    bins = Bins.over(0, minutes * 60_000 - 500)
    amounts = [0] * bins.count
    added = bins.add(amounts, start_ms, start_ms + length_ms, rate)
    inside_ms = max(0, min(start_ms + length_ms, bins.end_ms) - max(start_ms, 0))
    assert added == sum(amounts) == inside_ms * rate
    for index, amount in enumerate(amounts):
        assert 0 <= amount <= rate * bins.length_ms(index)


@pytest.mark.parametrize(("hours", "width_min"), [(1, 1), (2, 1), (24, 10), (168, 60)])
def test_bins_have_a_round_width(hours: int, width_min: int) -> None:
    assert Bins.over(START, START + hours * 3_600_000).width_ms == width_min * 60_000


def test_nearest_rank_of_nothing_is_nothing() -> None:
    assert nearest_rank([], 50) is None
    assert nearest_rank([7], 99) == 7
    assert nearest_rank(range(1, 101), 99) == 99


def test_the_context_of_a_replay_tells_what_is_real_and_what_is_invented() -> None:
    scenario = load_scenario(Path(__file__).parents[2] / "scenarios" / "itp_week.toml")
    context = context_of(load_window(scenario, 2, 3), {"broker": "none"})
    assert (context.scenario, context.seed, context.hours) == ("itp_week", 3, 2)
    assert context.trace_facts["jobs_arriving_in_window"] == 13_706
    assert context.trace_facts["mean_load_milli_accelerators"] == 1_243_329
    assert context.end_ms - context.start_ms == 2 * 3_600_000
    assert context.real
    assert context.invented
    assert len(context.pool_of_team) == 25
    assert build_report(context, {**tiny_log()})["run"] == {"broker": "none"}


def test_canary_a_figure_of_the_tiny_log_moves_with_the_log(report: dict[str, Any]) -> None:
    log = tiny_log()
    log["usage"].pop()
    assert build_report(CONTEXT, log)["occupancy"] != report["occupancy"]
    assert build_report(CONTEXT, log)["teams"] != report["teams"]
