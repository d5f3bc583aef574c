"""Periods of a pool whose terms change: no gap, no overlap, and never in the past."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_contracts.accounts import AccountsChanged, BillingPeriod, BillingTerms, PoolDocument
from walras_invoicing.calendar import Period, PoolCalendar

ZONES = ["UTC", "America/New_York", "Europe/Budapest", "Australia/Lord_Howe", "Asia/Kolkata"]
DAY_MS = 86_400_000
START_MS = 20_000 * DAY_MS
BOUNDARY_MS = 300_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def change(version: int, effective_ms: int, **terms: object) -> AccountsChanged:
    billing = BillingTerms.model_validate(terms)
    document = PoolDocument(pool="p", weight_micro_per_hour=1, billing=billing, teams=())
    return AccountsChanged(version=version, effective_ms=effective_ms, document=document)


def calendar(*changes: AccountsChanged) -> PoolCalendar:
    made = PoolCalendar()
    for each in changes:
        made.put(each)
    return made


def span(period: Period) -> tuple[int, int]:
    return period.start_ms, period.end_ms


def test_a_new_zone_counts_from_the_next_period_which_is_cut_to_begin_there() -> None:
    made = calendar(
        change(1, at("2025-01-01T00:00:00"), zone="America/New_York"),
        change(2, at("2025-01-10T00:00:00"), zone="Europe/Budapest"),
    )
    new_york = at("2025-02-01T05:00:00")
    assert span(made.period(at("2025-01-20T00:00:00")))[1] == new_york
    assert span(made.period(new_york)) == (new_york, at("2025-02-28T23:00:00"))
    assert made.period(at("2025-03-01T00:00:00")).zone == "Europe/Budapest"


def test_a_change_at_the_start_of_a_period_counts_for_it() -> None:
    made = calendar(change(1, START_MS, period="day"), change(2, START_MS + DAY_MS, period="hour"))
    assert span(made.period(START_MS + DAY_MS)) == (
        START_MS + DAY_MS,
        START_MS + DAY_MS + 3_600_000,
    )


def test_of_two_changes_within_a_period_the_later_counts_and_taking_one_back_undoes_it() -> None:
    first = change(1, START_MS, period="day")
    made = calendar(
        first,
        change(2, START_MS + 600_000, period="hour"),
        change(3, START_MS + 900_000, period="day"),
    )
    later = START_MS + 5 * DAY_MS + 7
    assert span(made.period(later)) == span(calendar(first).period(later))


def test_grace_and_approval_are_those_in_force_when_the_period_starts() -> None:
    made = calendar(
        change(1, START_MS, period="day", grace_ms=5),
        change(2, START_MS + 600_000, period="day", grace_ms=9, approval=True),
    )
    first, second = made.period(START_MS), made.period(START_MS + DAY_MS)
    assert (first.due_ms - first.end_ms, first.terms.approval) == (5, False)
    assert (second.due_ms - second.end_ms, second.terms.approval) == (9, True)


@pytest.mark.parametrize("zone", [*ZONES, "Pacific/Kiritimati"])
@pytest.mark.parametrize("kind", [*BillingPeriod])
def test_the_first_period_begins_where_market_time_does(zone: str, kind: BillingPeriod) -> None:
    for made in (calendar(change(1, 0, zone=zone, period=kind.value)), calendar()):
        assert made.period(0).start_ms == 0
        assert made.period(made.period(0).end_ms - 1) == made.period(0)


@given(
    changes=st.lists(
        st.tuples(
            st.integers(0, 900),
            st.sampled_from(ZONES),
            st.sampled_from(BillingPeriod),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_periods_follow_each_other_without_gap_or_overlap_whatever_changes_when(
    changes: list[tuple[int, str, BillingPeriod]],
) -> None:
    ordered = sorted(changes, key=lambda each: each[0])
    documents = [
        change(number + 1, START_MS + step * BOUNDARY_MS, zone=zone, period=kind.value)
        for number, (step, zone, kind) in enumerate(ordered)
    ]
    made = calendar(*documents)
    at_ms, last_ms = START_MS - DAY_MS, START_MS + 900 * BOUNDARY_MS + 40 * DAY_MS
    before = made.period(at_ms)
    while before.end_ms < last_ms:
        following = made.period(before.end_ms)
        assert following.start_ms == before.end_ms < following.end_ms
        assert made.period(following.end_ms - 1) == following
        before = following
    _, zone, kind = ordered[-1]
    assert (before.zone, before.kind) == (zone, kind)


@given(
    cuts=st.lists(st.integers(1, 400), min_size=1, max_size=4),
    probe=st.integers(0, 400),
)
def test_a_later_change_never_moves_a_period_that_has_begun(cuts: list[int], probe: int) -> None:
    documents = [change(1, START_MS, period="hour")]
    kinds = [BillingPeriod.DAY, BillingPeriod.MONTH, BillingPeriod.HOUR]
    for number, step in enumerate(sorted(cuts)):
        effective_ms = START_MS + step * BOUNDARY_MS
        known = calendar(*documents)
        kind = kinds[number % len(kinds)]
        documents.append(change(number + 2, effective_ms, period=kind.value, zone="Asia/Kolkata"))
        before_ms = min(START_MS + probe * BOUNDARY_MS, effective_ms - 1)
        assert calendar(*documents).period(before_ms) == known.period(before_ms)
