"""What a team's use costs in the hour, day and month of the calendar that are running.

Charge lines count by the time of use, corrections included; credits do not. What was accepted and
has no price yet counts at the newest price of its market, and where that is unknown not at all.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from walras.audit.rows import Span
from walras_contracts.accounts import BillingPeriod
from walras_contracts.calendar_periods import period_of

KINDS: Final = (BillingPeriod.HOUR, BillingPeriod.DAY, BillingPeriod.MONTH)
NewestPrice = Callable[[str, str], int | None]
"""Of a market, for a pool."""


class Unrated(NamedTuple):
    """Use that has no price from a step on, up to the one that rates it or gives it up.

    ``record``: key of its usage record. ``weight``: tariff × macc.
    """

    record: str
    market: str
    pool: str
    limit_micro: int | None
    weight: int
    span: Span
    since: int
    until: int

    def rate(self, newest: NewestPrice) -> int:
        """Return what it will cost for each ms at the newest price, as a numerator."""
        price = newest(self.market, self.pool)
        if price is None:
            return 0
        if self.limit_micro is not None:
            price = min(price, self.limit_micro)
        return price * self.weight


class RunningWindows:
    """The windows that are running, by zone; asked about ever later times."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Span, ...]] = {}

    def at(self, zone: str, at_ms: int) -> tuple[Span, ...]:
        """Return the windows of each kind at a time."""
        held = self._held.get(zone)
        if held is None or any(at_ms >= end_ms for _, end_ms in held):
            held = self._held[zone] = tuple(period_of(kind, zone, at_ms) for kind in KINDS)
        return held


@dataclass(slots=True)
class Spending:
    """What a team is charged in its windows so far, as numerators, and which alerts were given.

    ``alerted``: places of windows, with thresholds.
    """

    windows: list[Span] = field(default_factory=list)
    charged: list[int] = field(default_factory=list)
    alerted: set[tuple[int, int]] = field(default_factory=set)

    def turn(self, running: Sequence[Span]) -> None:
        """Turn to other windows.

        One that is over when the next begins leaves nothing. Where the zone of the pool changed,
        they share time, and what was counted stays.
        """
        if not self.windows:
            self.windows, self.charged = [*running], [0] * len(KINDS)
            return
        for place, (held, window) in enumerate(zip(self.windows, running, strict=True)):
            if held[1] <= window[0]:
                self.charged[place] = 0
                self.alerted = {alert for alert in self.alerted if alert[0] != place}
        self.windows = [*running]

    def charge(self, span: Span, numerator: int) -> None:
        """Count a charge line, or a correction."""
        for place, window in enumerate(self.windows):
            self.charged[place] += numerator * common_ms(span, window) // (span[1] - span[0])

    def spent(self, unrated: Iterable[Unrated], newest: NewestPrice) -> list[int]:
        """Return what use costs in each window, what has no price yet included."""
        spent = [*self.charged]
        for part in unrated:
            rate = part.rate(newest)
            if rate:
                for place, window in enumerate(self.windows):
                    spent[place] += rate * common_ms(part.span, window)
        return spent


def common_ms(one: Span, other: Span) -> int:
    """Return how long two spans are at once."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))
