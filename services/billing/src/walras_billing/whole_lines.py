"""Lines that cost one price from end to end: nearly all of them, and rated at once.

Many lines of a step have the same interval, market and pool; their price is looked up once. What
this cannot tell (cuts, overlaps, several prices, a price that is missing or came late) it leaves to
:func:`walras_billing.rating.rated`, which would give the same line (a test compares them).
"""

from collections.abc import Iterator
from typing import NamedTuple

from walras_billing.charge_encoding import whole_charge_output
from walras_billing.prices import NO_BARRIER, PriceHistory, View
from walras_billing.time_held import Sums, TimeHeld
from walras_billing.usage_line import UsageLine
from walras_runtime.records import Output

_Asked = tuple[str | None, str, int, int, int, int | None]
"""Series (None: use is free), pool, start, end, position, price age: what decides a price."""


class _Price(NamedTuple):
    """µcr per accelerator-hour, since which barrier, and what it made by team, as numerators.

    ``counted`` is where the time held counts.
    """

    price_micro: int
    barrier: int
    sums: dict[str, int]
    counted: Sums


class WholeLines:
    """Rates lines of one step, whose price history does not change meanwhile.

    The time that they held is counted, too: here all that this needs is at hand.
    """

    def __init__(self, prices: PriceHistory, time_held: TimeHeld, partition: int) -> None:
        self._prices = prices
        self._time_held = time_held
        self._partition = partition
        self._found: dict[_Asked, _Price | None] = {}

    def rated(self, line: UsageLine) -> Output | None:
        """Return all that a line is charged by now, if that is one charge; None: it may be more."""
        terms, start_ms, end_ms = line.terms, line.start_ms, line.end_ms
        if line.net is not None or line.cuts or line.pending:
            return None
        series = None if terms.is_free else terms.series
        asked = (series, terms.pool, start_ms, end_ms, line.until_ms, line.max_age_ms)
        try:
            found = self._found[asked]
        except KeyError:
            found = self._found[asked] = self._look_up(line)
        if found is None:
            return None
        price, barrier, sums, counted = found
        limit = terms.limit_micro
        if limit is not None and limit < price:
            price = limit
        macc_ms = terms.quantity_macc * (end_ms - start_ms)
        amount = price * terms.tariff_ppm * macc_ms
        if line.split is None:
            held, holder = counted.held, terms.holder
            held[holder] = held.get(holder, 0) + macc_ms
        else:
            counted.add(terms.holder, terms.quantity_macc, end_ms - start_ms, line.split)
        team = terms.team
        sums[team] = sums.get(team, 0) + amount
        return whole_charge_output(line, (price, barrier), amount, self._partition)

    def sales(self) -> Iterator[tuple[str, str, int, int, int]]:
        """Yield what was charged: team, pool, start, end and the sum of lines, as a numerator.

        Equal intervals lie in the same windows of the calendar, and amounts are linear in time.
        """
        for (_, pool, start_ms, end_ms, *_), found in self._found.items():
            if found is not None:
                for team, numerator in found.sums.items():
                    yield team, pool, start_ms, end_ms, numerator

    def _look_up(self, line: UsageLine) -> _Price | None:
        terms, span, prices = line.terms, (line.start_ms, line.end_ms), self._prices
        counted = self._time_held.at(line.end_ms)
        if terms.is_free:
            return _Price(0, NO_BARRIER, {}, counted)
        view = View(line.until_ms)
        segments = prices.segments(terms.series, terms.pool, span, view, line.max_age_ms)
        if len(segments) != 1 or prices.later_barriers(terms.series, span, line.until_ms):
            return None
        price = segments[0].price_micro
        return None if price is None else _Price(price, segments[0].barrier, {}, counted)
