"""Windows of the calendar: half-open, without gap or overlap, in every zone at every change."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from itertools import pairwise
from zoneinfo import available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from walras_contracts.accounts import BillingPeriod
from walras_contracts.calendar_periods import anchored_period, period_of, periods_between
from walras_contracts.quantities import MARKET_TIME_MS_MAX

HOUR, DAY, MONTH = BillingPeriod.HOUR, BillingPeriod.DAY, BillingPeriod.MONTH
HOUR_MS = 3_600_000
ZONES = sorted(available_timezones())
Windows = Callable[[BillingPeriod, str, int], tuple[int, int]]


def ms(text: str) -> int:
    """Return a UTC time in market time."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def assert_partition(windows: Windows, kind: BillingPeriod, zone: str, at_ms: int) -> None:
    """An instant lies in one window, whose neighbours touch it."""
    start_ms, end_ms = windows(kind, zone, at_ms)
    assert start_ms <= at_ms < end_ms
    assert windows(kind, zone, start_ms) == (start_ms, end_ms)
    assert windows(kind, zone, end_ms - 1) == (start_ms, end_ms)
    assert windows(kind, zone, end_ms)[0] == end_ms
    assert windows(kind, zone, start_ms - 1)[1] == start_ms


@given(
    kind=st.sampled_from(BillingPeriod),
    zone=st.sampled_from(ZONES),
    at_ms=st.integers(0, MARKET_TIME_MS_MAX),
)
# Half an hour back; an hour that is left out at midnight; a day that is left out; back over
# midnight, at one minute past it.
@example(HOUR, "Australia/Lord_Howe", ms("2025-04-05T15:10:00"))
@example(DAY, "America/Sao_Paulo", ms("2018-11-04T03:00:00"))
@example(DAY, "Pacific/Apia", ms("2011-12-30T10:00:00"))
@example(DAY, "America/St_Johns", ms("2010-11-07T02:45:00"))
def test_windows_of_a_kind_cover_every_instant_once(
    kind: BillingPeriod, zone: str, at_ms: int
) -> None:
    assert_partition(period_of, kind, zone, at_ms)


def test_the_check_sees_windows_that_overlap_where_clocks_go_back() -> None:
    def naive(kind: BillingPeriod, zone: str, at_ms: int) -> tuple[int, int]:
        start_ms, _ = period_of(kind, zone, at_ms)
        return start_ms, start_ms + 24 * HOUR_MS

    autumn = ms("2025-10-26T12:00:00")
    with pytest.raises(AssertionError):
        assert_partition(naive, DAY, "Europe/Budapest", autumn)


def test_days_at_clock_changes_have_23_and_25_hours() -> None:
    spring = period_of(DAY, "Europe/Budapest", ms("2025-03-30T12:00:00"))
    autumn = period_of(DAY, "Europe/Budapest", ms("2025-10-26T12:00:00"))
    assert spring[1] - spring[0] == 23 * HOUR_MS
    assert autumn[1] - autumn[0] == 25 * HOUR_MS
    assert len([*periods_between(HOUR, "Europe/Budapest", *autumn)]) == 25


def test_hours_begin_where_the_clocks_of_the_zone_show_a_full_hour() -> None:
    start_ms, end_ms = period_of(HOUR, "Asia/Kolkata", ms("2025-01-01T00:10:00"))
    assert (start_ms, end_ms) == (ms("2024-12-31T23:30:00"), ms("2025-01-01T00:30:00"))


def test_o10_a_point_at_local_midnight_belongs_to_the_month_that_begins() -> None:
    point = ms("2023-04-01T04:00:00")
    april = period_of(MONTH, "America/New_York", point)
    assert april[0] == point
    march = period_of(MONTH, "America/New_York", point - 1)
    assert march == (ms("2023-03-01T05:00:00"), point)
    assert march[1] - march[0] == 2_674_800_000
    # Wherever a sequence begins within a month, its windows end with the calendar's.
    for created in ("2023-02-01T05:00:00", "2023-03-20T04:00:00"):
        windows = [*periods_between(MONTH, "America/New_York", ms(created), point + 1)]
        assert windows[-1] == april


def test_o10_months_of_a_zone_with_odd_clocks_come_to_an_end() -> None:
    start_ms, end_ms = ms("2015-10-01T08:00:00"), ms("2025-10-01T08:00:00")
    windows = [*periods_between(MONTH, "America/Juneau", start_ms, end_ms)]
    assert len(windows) == 120
    assert (windows[0][0], windows[-1][1]) == (start_ms, end_ms)
    assert all(one[1] == other[0] for one, other in pairwise(windows))


def test_o11_january_in_budapest_begins_an_hour_before_it_does_in_utc() -> None:
    window = period_of(MONTH, "Europe/Budapest", ms("2025-01-15T00:00:00"))
    assert window == (ms("2024-12-31T23:00:00"), ms("2025-01-31T23:00:00"))


def test_o12_a_yearly_anchor_on_a_leap_day_renews_on_the_last_day_of_february() -> None:
    windows = [anchored_period("UTC", date(2024, 2, 29), 12, index) for index in range(4)]
    days = ["2024-02-29", "2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]
    bounds = [ms(f"{day}T00:00:00") for day in days]
    assert windows == [*pairwise(bounds)]
    assert [(end - start) // (24 * HOUR_MS) for start, end in windows] == [365, 365, 365, 366]


def test_a_monthly_anchor_on_the_31st_is_not_forgotten_over_a_short_month() -> None:
    windows = [anchored_period("UTC", date(2025, 1, 31), 1, index) for index in range(4)]
    days = ["2025-01-31", "2025-02-28", "2025-03-31", "2025-04-30", "2025-05-31"]
    assert windows == [*pairwise(ms(f"{day}T00:00:00") for day in days)]


@given(
    zone=st.sampled_from(ZONES),
    anchor=st.dates(date(1975, 1, 1), date(2090, 12, 31)),
    months=st.integers(1, 24),
    index=st.integers(-3, 40),
)
def test_anchored_windows_follow_each_other(
    zone: str, anchor: date, months: int, index: int
) -> None:
    one, other = (anchored_period(zone, anchor, months, number) for number in (index, index + 1))
    assert one[0] < one[1] == other[0] < other[1]


def test_an_anchored_window_needs_a_length() -> None:
    with pytest.raises(ValueError, match="months"):
        anchored_period("UTC", date(2025, 1, 1), 0, 0)
