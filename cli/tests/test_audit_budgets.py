"""Budgets in the audit: by hand, by another count, and against what the real billing writes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.tests.audit_days import (
    MINUTE_MS,
    START_MS,
    MoneyWorld,
    changed,
    drain,
    pool,
    price,
    usage,
    written,
)
from walras.audit import AuditReport, audit, expected_budgets
from walras.audit.budget_windows import KINDS, RunningWindows, Spending, Unrated
from walras_contracts.accounts import BillingPeriod, TeamBudget
from walras_contracts.calendar_periods import period_of
from walras_contracts.money import BudgetAlerted, BudgetPublished
from walras_contracts.work import DrainState
from walras_runtime.memory.log import MemoryLog

MINUTE_MICRO = 60_000
"""What a minute of one accelerator costs at 3.6 credits an hour."""
HOUR, DAY, MONTH = KINDS
Body = dict[str, Any]


def budget(window: BillingPeriod, minutes: int, *, hard_stop: bool = True) -> TeamBudget:
    """A budget that so many minutes use up; it alerts at half of it."""
    limit_micro = minutes * MINUTE_MICRO
    return TeamBudget(
        window=window, limit_micro=limit_micro, hard_stop=hard_stop, alert_ppm=(500_000,)
    )


def a_lease(minutes: int, *budgets: TeamBudget, **use: Any) -> MoneyWorld:
    """One accelerator of team t1, minute by minute, each record as soon as it can come."""
    world = MoneyWorld()
    document = pool("p", (1, 1, 0), budgets={"t1": budgets})
    world.step(0, changed(document), price(0, "a", (3_600_000, None)))
    for minute in range(minutes):
        span = (minute * MINUTE_MS, (minute + 1) * MINUTE_MS)
        world.step(minute + 1, usage("l1", minute, *span, **{"quantity_macc": 1000} | use))
    return world


def told(log: MemoryLog, model: Any) -> list[tuple[int, Body]]:
    """What is told of team t1, by the minute of the step."""
    bodies = [json.loads(entry.payload or b"") for _, _, entry in written(log, model.TOPIC)]
    return [
        ((body["at_ms"] - START_MS) // MINUTE_MS, body) for body in bodies if body["team"] == "t1"
    ]


def audited(log: MemoryLog) -> AuditReport:
    report = audit(log)
    assert report.is_clean, report.differences[:5]
    return report


def test_an_alert_and_a_stop_come_with_the_use_that_reaches_them_and_figures_at_settlements() -> (
    None
):
    log = a_lease(8, budget(HOUR, 6), budget(DAY, 7, hard_stop=False)).log

    alerts = [(minute, b["budget"]["window"]) for minute, b in told(log, BudgetAlerted)]
    assert alerts == [(3, "hour"), (4, "day")]
    records = [
        (minute, b["reason"], [each["spent_micro"] // MINUTE_MICRO for each in b["budgets"]])
        for minute, b in told(log, BudgetPublished)
    ]
    # Boundary 0 is settled by minute 1, boundary 5 by minute 6, where the sixth minute is told.
    assert records == [(1, "none", [1, 1]), (6, "hour", [6, 6])]
    report = audited(log)
    assert (report.counts["budgets"], report.counts["alerts"]) == (len_of(log), 2)


def len_of(log: MemoryLog) -> int:
    return sum(1 for _ in written(log, BudgetPublished.TOPIC))


def test_a_stop_ends_with_the_window_of_its_budget() -> None:
    world = a_lease(4, budget(HOUR, 3))
    for minute in (58, 60, 61):
        world.step(minute)
    reasons = [(minute, b["reason"]) for minute, b in told(world.log, BudgetPublished)]
    assert (3, "hour") in reasons
    assert (60, "none") in reasons
    audited(world.log)


def test_a_team_without_funds_and_income_is_stopped_by_its_wallet_before_all() -> None:
    world = MoneyWorld()
    document = pool("p", (0, 1, 0), budgets={"t1": (budget(HOUR, 1),)})
    world.step(0, changed(document), price(0, "a", (3_600_000, None)))
    world.step(1, usage("l1", 0, 0, MINUTE_MS, quantity_macc=1000))
    for minute in (2, 6, 7):
        world.step(minute)
    assert [b["reason"] for _, b in told(world.log, BudgetPublished)][-1] == "wallet"
    audited(world.log)


def test_what_has_no_price_counts_at_the_newest_and_where_there_is_none_not_at_all() -> None:
    world = MoneyWorld()
    document = pool("p", (1, 1, 0), budgets={"t1": (budget(HOUR, 100),)})
    world.step(0, changed(document), price(0, "a", (None, None)))
    world.step(1, usage("l1", 0, 0, MINUTE_MS, quantity_macc=1000))
    # It waits from minute 2 on; the price of minute 4 is not its own.
    for minute in (2, 3):
        world.step(minute)
    world.step(4, price(4, "a", (7_200_000, None)))
    for minute in (6, 11):
        world.step(minute)
    spent = {m: b["budgets"][0]["spent_micro"] for m, b in told(world.log, BudgetPublished)}
    assert spent == {1: 0, 6: 2 * MINUTE_MICRO, 11: 2 * MINUTE_MICRO}
    assert audited(world.log).counts["pending"] == 1


def test_another_zone_moves_the_borders_and_what_was_counted_stays() -> None:
    world = a_lease(10, budget(HOUR, 100))
    document = pool("p", (1, 1, 0), zone="Asia/Kolkata", budgets={"t1": (budget(HOUR, 100),)})
    world.step(15, changed(document, version=2, minute=15))
    for minute in (16, 31, 36):
        world.step(minute)
    figures = [
        (
            minute,
            (b["budgets"][0]["start_ms"] - START_MS) // MINUTE_MS,
            b["budgets"][0]["spent_micro"],
        )
        for minute, b in told(world.log, BudgetPublished)
    ]
    full = 10 * MINUTE_MICRO
    assert figures[-3:] == [(16, -30, full), (31, 30, 0), (36, 30, 0)]
    audited(world.log)


def test_a_budget_that_comes_within_its_window_counts_what_was_spent_before() -> None:
    world = a_lease(4)
    document = pool("p", (1, 1, 0), budgets={"t1": (budget(DAY, 4),)})
    world.step(5, changed(document, version=2, minute=5))
    world.step(6)
    ((_, alert),) = told(world.log, BudgetAlerted)
    assert alert["budget"]["spent_micro"] == 4 * MINUTE_MICRO
    assert [b["reason"] for m, b in told(world.log, BudgetPublished) if m == 5] == ["day"]
    audited(world.log)


def test_corrections_change_what_is_spent_and_credits_do_not() -> None:
    world = a_lease(3, budget(HOUR, 100))
    world.step(4, drain("l1", 0, MINUTE_MS, DrainState.FAILED, "s"))
    world.step(6)
    *_, (_, before) = told(world.log, BudgetPublished)
    assert before["budgets"][0]["spent_micro"] == 3 * MINUTE_MICRO
    world.step(7, price(0, "a", (1_800_000, None)))
    world.step(11)
    *_, (_, after) = told(world.log, BudgetPublished)
    assert after["budgets"][0]["spent_micro"] == 3 * MINUTE_MICRO // 2
    assert audited(world.log).counts["credits"] == 2


def test_two_records_that_say_the_same_of_two_nodes_count_twice() -> None:
    world = a_lease(1, budget(HOUR, 100))
    span = (MINUTE_MS, 2 * MINUTE_MS)
    twins = [usage("l1", 0, *span, node=f"m{at}", quantity_macc=1000) for at in range(2)]
    world.step(2, *twins)
    for minute in (3, 6):
        world.step(minute)
    *_, (_, last) = told(world.log, BudgetPublished)
    assert last["budgets"][0]["spent_micro"] == 3 * MINUTE_MICRO
    audited(world.log)


SPAN = st.tuples(st.integers(0, 50), st.integers(1, 30)).map(lambda s: (s[0], s[0] + s[1]))


@given(spans=st.lists(SPAN, max_size=6), rates=st.lists(st.integers(-9, 9), min_size=6), data=SPAN)
def test_a_window_holds_what_each_instant_in_it_costs(
    spans: list[tuple[int, int]], rates: list[int], data: tuple[int, int]
) -> None:
    windows = [data, (0, 40), (10, 100)]
    spending = Spending()
    spending.turn(windows)
    for span, rate in zip(spans, rates, strict=False):
        spending.charge(span, rate * (span[1] - span[0]))
    parts = [Unrated("r", "m", "p", 4, 3, span, 0, 1) for span in spans]
    for window, total in zip(windows, spending.spent(parts, lambda *_: 5), strict=True):
        instants = [at for span in spans for at in range(*span) if window[0] <= at < window[1]]
        charged = sum(
            rate
            for span, rate in zip(spans, rates, strict=False)
            for at in range(*span)
            if window[0] <= at < window[1]
        )
        assert total == charged + len(instants) * 3 * 4, "at the limit of 4, below the price of 5"


@given(
    moves=st.lists(
        st.tuples(st.sampled_from(("UTC", "Asia/Kathmandu")), st.integers(0, 3000)), max_size=8
    )
)
def test_the_windows_that_run_are_those_of_the_calendar(moves: list[tuple[str, int]]) -> None:
    running, at_ms = RunningWindows(), START_MS
    for zone, minutes in moves:
        at_ms += minutes * MINUTE_MS
        assert running.at(zone, at_ms) == tuple(period_of(kind, zone, at_ms) for kind in KINDS)


def test_canary_an_audit_that_does_not_count_what_has_no_price_finds_differences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = a_lease(8, budget(HOUR, 6)).log
    monkeypatch.setattr(Unrated, "rate", lambda _self, _newest: 0)
    assert {"budget_differs", "alert_missing", "alert_unexpected"} <= audit(log).found.keys()


def test_canary_an_audit_that_looks_at_settlements_alone_misses_a_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = a_lease(12, budget(HOUR, 3)).log
    look = expected_budgets.ExpectedBudgets._look

    def settled_only(self: Any, step: int, teams: Any, *, is_settled: bool) -> None:
        if is_settled:
            look(self, step, teams, is_settled=True)

    monkeypatch.setattr(expected_budgets.ExpectedBudgets, "_look", settled_only)
    assert audit(log).found["budget_unexpected"] == 1
