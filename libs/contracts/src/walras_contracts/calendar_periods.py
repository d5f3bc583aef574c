"""Windows of the calendar in a time zone: hours, days, months, and sequences from an anchor.

All of them are half-open ``[start_ms, end_ms)`` in market time. Those of one kind and zone cover
every instant exactly once, whatever the zone does to its clocks: a day may have 23 or 25 hours, a
day that a zone leaves out has none, and an hour that is lived twice is two hours.
"""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

from walras_contracts.accounts import BillingPeriod

_UTC: Final = ZoneInfo("UTC")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=_UTC)
_MS: Final = timedelta(milliseconds=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_AROUND: Final = range(-2, 4)
"""So many wall-clock hours around an instant hold the hour's two ends."""

_zone = cache(ZoneInfo)


def period_of(kind: BillingPeriod, zone: str, at_ms: int) -> tuple[int, int]:
    """Return the window of the calendar that an instant lies in.

    Parameters
    ----------
    kind
        Hour, day or month.
    zone
        Name of an IANA time zone.
    at_ms
        The instant.

    Returns
    -------
    tuple
        ``(start_ms, end_ms)`` with ``start_ms <= at_ms < end_ms``. A day starts at the first
        midnight of its date, or where the clocks leave midnight out, at that change. An hour starts
        where the clocks show a full hour; a change by half an hour makes one of 90 minutes.
    """
    if kind is BillingPeriod.HOUR:
        return _hour(_zone(zone), at_ms)
    # The first guess is the date that the clocks show; where they go back over midnight, that is
    # the day before for a second time.
    day = _local(_zone(zone), at_ms).date()
    first = day.replace(day=1) if kind is BillingPeriod.MONTH else day
    while _midnight_ms(_zone(zone), first) > at_ms:
        first = _previous(kind, first)
    while True:
        following = _next(kind, first)
        end_ms = _midnight_ms(_zone(zone), following)
        if end_ms > at_ms:
            return _midnight_ms(_zone(zone), first), end_ms
        first = following


def periods_between(
    kind: BillingPeriod, zone: str, start_ms: int, end_ms: int
) -> Iterator[tuple[int, int]]:
    """Yield the windows that overlap ``[start_ms, end_ms)``, whole and in order."""
    at_ms = start_ms
    while at_ms < end_ms:
        window = period_of(kind, zone, at_ms)
        yield window
        at_ms = window[1]


def anchored_period(zone: str, anchor: date, months: int, index: int) -> tuple[int, int]:
    """Return a window of a sequence that renews every so many months on the day of an anchor.

    Parameters
    ----------
    zone
        Name of an IANA time zone.
    anchor
        Where window 0 starts: the midnight of this date in the zone.
    months
        Length of a window: 1 for monthly, 12 for yearly.
    index
        Number of the window; may be negative.

    Returns
    -------
    tuple
        ``(start_ms, end_ms)``. Where a month has no such day, the window starts on its last one;
        the day of the anchor is not forgotten over it.
    """
    if months < 1:
        raise ValueError("months must be 1 or more")
    start, end = (_months_after(anchor, months * number) for number in (index, index + 1))
    return _midnight_ms(_zone(zone), start), _midnight_ms(_zone(zone), end)


def _hour(zone: ZoneInfo, at_ms: int) -> tuple[int, int]:
    local = _local(zone, at_ms)
    shown = local.replace(minute=0, second=0, microsecond=0, tzinfo=None)
    full = [
        instant_ms
        for step in _AROUND
        for fold in (0, 1)
        for instant_ms in (_instant_ms(zone, shown + step * _HOUR, fold),)
        if _shows_a_full_hour(zone, instant_ms)
    ]
    return max(ms for ms in full if ms <= at_ms), min(ms for ms in full if ms > at_ms)


def _shows_a_full_hour(zone: ZoneInfo, instant_ms: int) -> bool:
    """Whether the clocks really show it: a wall-clock hour that is left out has no instant."""
    local = _local(zone, instant_ms)
    return local.minute == local.second == local.microsecond == 0


def _previous(kind: BillingPeriod, first: date) -> date:
    return first - _DAY if kind is BillingPeriod.DAY else _months_after(first, -1)


def _next(kind: BillingPeriod, first: date) -> date:
    return first + _DAY if kind is BillingPeriod.DAY else _months_after(first, 1)


def _months_after(day: date, months: int) -> date:
    """Return the same day so many months later, or the last one of a month that is too short."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    following_year, following = divmod(year * 12 + month + 1, 12)
    last = date(following_year, following + 1, 1) - _DAY
    return date(year, month + 1, min(day.day, last.day))


def _midnight_ms(zone: ZoneInfo, day: date) -> int:
    """Return the first midnight of a date; where it is left out, the change that leaves it out."""
    return _instant_ms(zone, datetime.combine(day, time.min), 0)


def _instant_ms(zone: ZoneInfo, shown: datetime, fold: int) -> int:
    aware = shown.replace(tzinfo=zone, fold=fold)
    return (aware.astimezone(_UTC) - _EPOCH) // _MS


def _local(zone: ZoneInfo, at_ms: int) -> datetime:
    return (_EPOCH + at_ms * _MS).astimezone(zone)
