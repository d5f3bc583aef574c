"""Lines that cost one price from end to end: nearly all of them, and rated at once.

Many lines of a step have the same interval, market and pool; their price is looked up once. What
this cannot tell (cuts, overlaps, several prices, a price that is missing or came late) it leaves to
:func:`walras_billing.rating.rated`, which would give the same line (a test compares them).
"""

from walras_billing.charge_encoding import whole_charge_output
from walras_billing.prices import NO_BARRIER, PriceHistory, View
from walras_billing.usage_line import UsageLine
from walras_contracts.quantities import SETTLEMENT_MS
from walras_runtime.records import Output

_Price = tuple[int, int]
"""µcr per accelerator-hour, and the barrier by which it became known."""
_FREE: _Price = (0, NO_BARRIER)


class WholeLines:
    """Rates lines of one step, whose price history does not change meanwhile.

    ``sums`` holds what they cost together, as numerators, by team, pool and interval: equal
    intervals lie in the same windows of the calendar.
    """

    def __init__(self, prices: PriceHistory, partition: int) -> None:
        self.sums: dict[tuple[str, str, int, int], int] = {}
        self._prices = prices
        self._partition = partition
        self._found: dict[tuple[str, str, int, int, int, int | None], _Price | None] = {}

    def rated(self, line: UsageLine) -> Output | None:
        """Return all that a line is charged by now, if that is one charge; None: it may be more."""
        terms, start_ms, end_ms = line.terms, line.start_ms, line.end_ms
        if line.net is not None or line.cuts or line.pending:
            return None
        # Across a border of windows a part of the amount counts in each, rounded line by line.
        if start_ms // SETTLEMENT_MS != (end_ms - 1) // SETTLEMENT_MS:
            return None
        found: _Price | None = _FREE
        if not terms.is_free:
            asked = (terms.series, terms.pool, start_ms, end_ms, line.until_ms, line.max_age_ms)
            try:
                found = self._found[asked]
            except KeyError:
                found = self._found[asked] = self._look_up(line)
        if found is None:
            return None
        price, barrier = found
        limit = terms.limit_micro
        if limit is not None and limit < price:
            price = limit
        amount = price * terms.tariff_ppm * terms.quantity_macc * (end_ms - start_ms)
        sale = (terms.team, terms.pool, start_ms, end_ms)
        self.sums[sale] = self.sums.get(sale, 0) + amount
        return whole_charge_output(line, (price, barrier), amount, self._partition)

    def _look_up(self, line: UsageLine) -> _Price | None:
        terms, span, prices = line.terms, (line.start_ms, line.end_ms), self._prices
        view = View(line.until_ms)
        segments = prices.segments(terms.series, terms.pool, span, view, line.max_age_ms)
        if len(segments) != 1 or prices.later_barriers(terms.series, span, line.until_ms):
            return None
        price = segments[0].price_micro
        return None if price is None else (price, segments[0].barrier)
