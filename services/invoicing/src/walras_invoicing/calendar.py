"""The invoice periods of a pool: without gap and overlap, also where its zone or period changes.

What was agreed when a period starts counts for all of it. A change of the zone or of the period
counts from the end of the period in which it takes effect; the first new one is cut so that it
starts there.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple

from walras_contracts.accounts import (
    AccountsChanged,
    BillingPeriod,
    BillingTerms,
    PoolDocument,
)
from walras_contracts.calendar_periods import period_of

ALWAYS_MS: Final = 0
"""Where market time begins: no period starts before it."""
REMEMBERED: Final = 256
"""So many periods are looked up once."""


class Period(NamedTuple):
    """One invoice period of a pool, and what was agreed for it."""

    kind: BillingPeriod
    zone: str
    start_ms: int
    end_ms: int
    terms: BillingTerms

    @property
    def due_ms(self) -> int:
        """From when its invoices are issued."""
        return self.end_ms + self.terms.grace_ms


@dataclass(frozen=True, slots=True)
class _Segment:
    """From an instant on, periods are windows of the calendar of a kind and zone."""

    from_ms: int
    kind: BillingPeriod
    zone: str

    def window(self, at_ms: int) -> tuple[int, int]:
        start_ms, end_ms = period_of(self.kind, self.zone, at_ms)
        return max(start_ms, self.from_ms), end_ms


class PoolCalendar:
    """Periods of one pool, by the documents of the pool.

    Before its first document, and where it has none, the first one's terms count; without any the
    defaults do.
    """

    def __init__(self) -> None:
        self._versions: list[tuple[int, int, BillingTerms]] = []
        self._segments: list[_Segment] = []
        self._periods: dict[int, Period] = {}
        self._starts: list[int] = []
        self._arrange()

    def put(self, change: AccountsChanged) -> None:
        """Take a version of the pool's document; folding it again changes nothing."""
        document = change.document
        assert isinstance(document, PoolDocument)
        version = (change.effective_ms, change.version, document.billing)
        held = [known for known in self._versions if known[1] != change.version]
        self._versions = sorted([*held, version], key=_by_effect)
        self._arrange()

    def period(self, at_ms: int) -> Period:
        """Return the period that an instant lies in."""
        place = bisect_right(self._starts, at_ms) - 1
        if place >= 0:
            known = self._periods[self._starts[place]]
            if at_ms < known.end_ms:
                return known
        start_ms, end_ms = self._window(at_ms)
        segment = self._segment(start_ms)
        period = Period(segment.kind, segment.zone, start_ms, end_ms, self._terms(start_ms))
        if len(self._starts) >= REMEMBERED:
            del self._periods[self._starts.pop(0)]
        self._periods[start_ms] = period
        self._starts = sorted(self._periods)
        return period

    def _arrange(self) -> None:
        """Lay out which calendar counts from when."""
        self._periods.clear()
        self._starts.clear()
        first_ms, _, terms = self._versions[0] if self._versions else (ALWAYS_MS, 0, BillingTerms())
        self._segments = [_Segment(ALWAYS_MS, terms.period, terms.zone)]
        for effective_ms, _, later in self._versions[1:]:
            last = self._segments[-1]
            if effective_ms == first_ms:
                self._segments = [_Segment(ALWAYS_MS, later.period, later.zone)]
                continue
            if effective_ms <= last.from_ms:
                # The last change has not begun yet, and never will: this one takes its place.
                from_ms = self._segments.pop().from_ms
            else:
                start_ms, end_ms = last.window(effective_ms)
                from_ms = start_ms if start_ms == effective_ms else end_ms
            last = self._segments[-1]
            if (last.kind, last.zone) != (later.period, later.zone):
                self._segments.append(_Segment(from_ms, later.period, later.zone))

    def _segment(self, at_ms: int) -> _Segment:
        return self._segments[bisect_right(self._segments, at_ms, key=_from_ms) - 1]

    def _window(self, at_ms: int) -> tuple[int, int]:
        """Return the window of the segment, ended where the next one starts."""
        place = bisect_right(self._segments, at_ms, key=_from_ms) - 1
        start_ms, end_ms = self._segments[place].window(at_ms)
        if place + 1 < len(self._segments):
            end_ms = min(end_ms, self._segments[place + 1].from_ms)
        return start_ms, end_ms

    def _terms(self, at_ms: int) -> BillingTerms:
        if not self._versions:
            return BillingTerms()
        place = bisect_right(self._versions, at_ms, key=_effective_ms) - 1
        return self._versions[max(0, place)][2]


def _by_effect(version: tuple[int, int, BillingTerms]) -> tuple[int, int]:
    return version[0], version[1]


def _effective_ms(version: tuple[int, int, BillingTerms]) -> int:
    return version[0]


def _from_ms(segment: _Segment) -> int:
    return segment.from_ms
