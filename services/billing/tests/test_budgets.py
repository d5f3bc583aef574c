"""Budgets: what use in the running windows costs, alerts, and stops that are told at once."""

from datetime import UTC, datetime
from typing import Any

from services.billing.tests.billing_bench import MINUTE_MS, START_MS, Bench, price, usage
from walras_contracts.accounts import (
    AccountsChanged,
    BillingPeriod,
    BillingTerms,
    PoolDocument,
    TeamAccount,
    TeamBudget,
)
from walras_contracts.money import BudgetAlerted, BudgetPublished, StopReason
from walras_contracts.work import WorkClass
from walras_runtime.records import Output, emit

HOUR, DAY, MONTH = BillingPeriod.HOUR, BillingPeriod.DAY, BillingPeriod.MONTH


def budgeted(
    *budgets: TeamBudget,
    minute: int = 0,
    version: int = 1,
    zone: str = "UTC",
    name: str = "p",
    team: str = "t1",
) -> Output:
    """Return a pool's document; another team with an income makes sure that there is a pool."""
    document = PoolDocument(
        pool=name,
        weight_micro_per_hour=2_000_000,
        billing=BillingTerms(zone=zone),
        teams=(
            TeamAccount(team=team, income_local_per_hour=1, budgets=budgets),
            TeamAccount(team="rest", income_local_per_hour=1),
        ),
    )
    effective_ms = START_MS + minute * MINUTE_MS
    return emit(AccountsChanged(version=version, effective_ms=effective_ms, document=document))


def limit(micro: int, window: BillingPeriod = HOUR, **more: Any) -> TeamBudget:
    return TeamBudget(window=window, limit_micro=micro, **more)


def told(bench: Bench, team: str = "t1") -> list[tuple[int, StopReason]]:
    """Return when (in minutes) a team was told otherwise; at first it may spend."""
    found = [(0, StopReason.NONE)]
    for event in bench.events("budgets", BudgetPublished):
        assert event.exhausted == (event.reason is not StopReason.NONE)
        if event.team == team and event.reason is not found[-1][1]:
            found.append(((event.at_ms - START_MS) // MINUTE_MS, event.reason))
    return found[1:]


def alerts(bench: Bench) -> list[tuple[int, int, str]]:
    """Return the alerts: minute, threshold, window."""
    return [
        ((event.at_ms - START_MS) // MINUTE_MS, event.threshold_ppm, event.budget.window.value)
        for event in bench.events("budgets.alerts", BudgetAlerted)
    ]


def spent(bench: Bench, window: BillingPeriod, team: str = "t1") -> int:
    return next(b.spent_micro for b in bench.budgets()[team].budgets if b.window is window)


def test_use_that_is_not_rated_yet_counts_at_the_newest_price_and_stops_at_once() -> None:
    bench = Bench()
    bench.step(0, budgeted(limit(100_000)), price(0, 60_000))
    bench.step(1, usage(0))
    assert told(bench) == []
    bench.step(2, usage(1, seq=1))

    # Two minutes at 60 mC; the first was rated in this step, the second will be in the next.
    assert told(bench) == [(2, StopReason.HOUR)]
    assert spent(bench, HOUR) == 120_000
    assert len(bench.charges()) == 1
    bench.step(3, price(1, 10_000))
    assert told(bench) == [(2, StopReason.HOUR), (3, StopReason.NONE)], "it was cheaper than feared"
    assert spent(bench, HOUR) == 70_000


def test_a_new_window_frees_the_team_in_its_first_step_and_late_use_of_the_old_is_nothing() -> None:
    bench = Bench()
    bench.step(57, budgeted(limit(100_000), minute=57), price(57, 100_000))
    bench.step(58, usage(57))
    bench.step(60, usage(59, seq=2))
    bench.step(61, usage(58, seq=1))

    assert told(bench)[:2] == [(58, StopReason.HOUR), (60, StopReason.NONE)]
    bench.step(66)
    assert spent(bench, HOUR) == 0
    assert bench.budgets()["t1"].budgets[0].start_ms == START_MS + 60 * MINUTE_MS


def test_use_across_the_border_of_two_windows_counts_in_each_for_its_part() -> None:
    bench = Bench()
    bench.step(50, budgeted(limit(10**9), limit(10**9, DAY), minute=50), price(50, 60_000))
    bench.step(64, usage(57, minutes=7))
    assert (spent(bench, HOUR), len(bench.charges())) == (4 * 60_000, 0)
    bench.step(66)
    assert len(bench.charges()) == 1

    assert (spent(bench, HOUR), spent(bench, DAY)) == (4 * 60_000, 7 * 60_000)


def test_corrections_count_where_the_use_was() -> None:
    bench = Bench()
    bench.step(0, budgeted(limit(50_000)), price(0, 60_000))
    bench.step(1, usage(0))
    bench.step(3)
    assert told(bench) == [(1, StopReason.HOUR)]
    bench.step(4, price(0, 49_999))
    assert told(bench)[-1] == (4, StopReason.NONE)
    bench.step(5, price(0, 50_000))

    assert told(bench)[-1] == (5, StopReason.HOUR)
    assert spent(bench, HOUR) == 50_000


def test_limits_of_jobs_bound_the_estimate_and_free_use_is_no_spending() -> None:
    bench = Bench()
    bench.step(0, budgeted(limit(100_000)), price(0, 500_000))
    bench.step(1, usage(0, limit=30_000), usage(0, lease="l2", work_class=WorkClass.OPPORTUNISTIC))
    assert told(bench) == []
    bench.step(6)

    assert spent(bench, HOUR) == 30_000


def test_use_that_waits_for_its_price_counts_from_when_one_is_known() -> None:
    for crash in (False, True):
        bench = Bench(crash=crash)
        bench.step(0, budgeted(limit(50_000)), price(0, None))
        bench.step(1, usage(0))
        bench.step(6)
        assert spent(bench, HOUR) == 0
        bench.step(7, price(5, 60_000))
        assert told(bench)[-1] == (7, StopReason.HOUR), "at the newest price, still unrated"
        assert bench.charges() == []
        bench.step(8, price(0, 1_000))

        assert told(bench)[-1] == (8, StopReason.NONE)
        assert spent(bench, HOUR) == 1_000


def test_each_threshold_is_alerted_once_in_a_window_and_again_in_the_next() -> None:
    for crash in (False, True):
        bench = Bench(crash=crash)
        soft = limit(100_000, hard_stop=False)
        bench.step(0, budgeted(soft), price(0, 30_000))
        for minute in range(1, 6):
            bench.step(minute, usage(minute - 1, seq=minute - 1))
        # Down below the first threshold, and up again.
        bench.step(7, price(0, 1_000))
        bench.step(8, usage(7, seq=5), price(7, 200_000))
        bench.step(61, usage(60, seq=6))

        assert alerts(bench) == [
            (2, 500_000, "hour"),
            (3, 800_000, "hour"),
            (4, 1_000_000, "hour"),
            (61, 500_000, "hour"),
            (61, 800_000, "hour"),
            (61, 1_000_000, "hour"),
        ]
        assert told(bench) == [], "it only alerts"


def test_the_budget_that_stops_for_longest_is_named_and_an_empty_wallet_before_all() -> None:
    bench = Bench()
    all_three = (limit(50_000), limit(60_000, DAY), limit(170_000, MONTH))
    bench.step(0, budgeted(*all_three), price(0, 55_000))
    bench.step(1, usage(0))
    bench.step(2, usage(1, seq=1))
    bench.step(4, usage(2, seq=2), usage(3, seq=3))
    # Without income from minute 5 on; the wallet is empty at the settlement of minute 10.
    bench.step(5, budgeted(*all_three, minute=5, version=2, team="t9"))
    bench.step(11)

    assert told(bench)[:3] == [
        (1, StopReason.HOUR),
        (2, StopReason.DAY),
        (4, StopReason.MONTH),
    ]
    assert told(bench)[-1] == (11, StopReason.WALLET)


def test_a_grant_counts_in_the_step_in_which_its_document_does() -> None:
    bench = Bench()
    bench.step(0, budgeted(limit(50_000)), price(0, 60_000))
    bench.step(1, usage(0))
    bench.step(2, budgeted(limit(100_000), minute=5, version=2))
    assert told(bench) == [(1, StopReason.HOUR)]
    bench.step(4)
    bench.step(5)

    assert told(bench) == [(1, StopReason.HOUR), (5, StopReason.NONE)]
    assert [minute for minute, _, _ in alerts(bench)] == [1, 1, 1], "none is given twice"


def test_a_budget_that_is_taken_away_stops_nobody() -> None:
    bench = Bench()
    bench.step(0, budgeted(limit(50_000)), price(0, 60_000))
    bench.step(1, usage(0), budgeted(minute=5, version=2))
    bench.step(5)

    assert told(bench) == [(1, StopReason.HOUR), (5, StopReason.NONE)]


def test_a_budget_that_comes_within_its_window_counts_what_was_spent_in_it_before() -> None:
    bench = Bench()
    bench.step(0, budgeted(), price(0, 60_000))
    bench.step(1, usage(0))
    bench.step(3, budgeted(limit(60_000, MONTH), minute=5, version=2))
    bench.step(5)

    assert told(bench) == [(5, StopReason.MONTH)]


def test_another_zone_moves_the_borders_of_the_window_and_loses_no_spending() -> None:
    bench = Bench()
    bench.step(0, budgeted(limit(10**9, DAY)), price(0, 60_000))
    bench.step(1, usage(0))
    bench.step(3, budgeted(limit(10**9, DAY), minute=5, version=2, zone="Asia/Kolkata"))
    bench.step(11, usage(10, seq=1))
    bench.step(16)

    (state,) = bench.budgets()["t1"].budgets
    assert state.start_ms == START_MS - 330 * MINUTE_MS
    assert state.spent_micro == 120_000


def at(text: str) -> int:
    """Return an instant of UTC in minutes of the bench."""
    when = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return (int(when.timestamp()) * 1000 - START_MS) // MINUTE_MS


def test_the_day_on_which_the_clocks_go_forward_has_23_hours() -> None:
    bench = Bench()
    begin = at("2024-03-30T22:50")
    document = budgeted(limit(10**9, DAY), minute=begin, zone="Europe/Budapest")
    bench.step(begin, document, price(begin, 60_000))
    bench.step(begin + 10, usage(begin + 9))
    bench.step(begin + 20, usage(begin + 10, seq=1))
    bench.step(begin + 30)

    (state,) = bench.budgets()["t1"].budgets
    assert state.start_ms == START_MS + at("2024-03-30T23:00") * MINUTE_MS
    assert state.end_ms == START_MS + at("2024-03-31T22:00") * MINUTE_MS
    assert state.spent_micro == 60_000
