"""The prices that are in force, and the cycles of market times, from the end of ``prices``."""

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from walras.jobs_log.items import Log
from walras_contracts.market import PricePublished

RECORDS_MAX: Final = 100_000
"""So far back a list of jobs is looked at; the page of one job looks as far as it must."""


@dataclass(slots=True)
class PriceBoard:
    """The last prices of each market, and when which cycle was."""

    latest: dict[str, PricePublished] = field(default_factory=dict)
    _times_ms: list[int] = field(default_factory=list)
    _cycles: list[int] = field(default_factory=list)

    def price_micro(self, market: str, pool: str) -> int | None:
        """Return what an accelerator-hour costs inside a pool; None: it is not known."""
        prices = self.latest.get(market)
        if prices is None:
            return None
        return next((each.price_micro for each in prices.pools if each.pool == pool), None)

    def cycle_of(self, market: str) -> int | None:
        """Return the cycle of a market's prices."""
        prices = self.latest.get(market)
        return None if prices is None else prices.cycle

    def cycle_at(self, market_time_ms: int) -> int | None:
        """Return the cycle that was in force at a market time; None: before what was read."""
        index = bisect_right(self._times_ms, market_time_ms) - 1
        return None if index < 0 else self._cycles[index]

    def put_cycles(self, cycle_of: dict[int, int]) -> None:
        """Set which cycle was at which market time."""
        self._times_ms = sorted(cycle_of)
        self._cycles = [cycle_of[time_ms] for time_ms in self._times_ms]


def read_prices(
    log: Log, markets: Collection[str], since_ms: int | None, most: int | None
) -> PriceBoard:
    """Read prices from the end back, until all that is wanted was seen.

    Parameters
    ----------
    log
        Where from.
    markets
        Markets whose prices are wanted. One that never had any would be looked for everywhere:
        leave out what no supply names.
    since_ms
        The earliest market time whose cycle is wanted; None: none is.
    most
        After so many records it is enough; None: never.

    Raises
    ------
    JobsLogError
        The log cannot be read.
    """
    board = PriceBoard()
    cycle_of: dict[int, int] = {}
    missing = set(markets)
    seen = 0
    # One partition holds all of it; which market it is asked for does not matter.
    name = min(missing, default="-")
    for stretch in log.backwards(PricePublished.TOPIC, PricePublished, partition_key=name):
        for item in reversed(stretch):
            prices = item.event
            if isinstance(prices, PricePublished):
                cycle_of[prices.market_time_ms] = prices.cycle
                if prices.market in missing:
                    board.latest[prices.market] = prices
                    missing.discard(prices.market)
        seen += len(stretch)
        reached = since_ms is None or min(cycle_of, default=since_ms + 1) <= since_ms
        if (not missing and reached) or (most is not None and seen >= most):
            break
    board.put_cycles(cycle_of)
    return board
