"""The price history: which price was in force when, per market and pool.

A price counts from its market time until the next of its market. A pool that the record in force
does not price has no known price then.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from walras_billing.rating import PriceSpan
from walras_contracts.market import PricePublished

PoolPrices = dict[str, int | None]


@dataclass(slots=True)
class _Market:
    times_ms: list[int] = field(default_factory=list)
    prices: list[PoolPrices] = field(default_factory=list)


class PriceHistory:
    """Prices by market in order of market time."""

    def __init__(self) -> None:
        self._markets: dict[str, _Market] = {}

    def put(self, price: PricePublished) -> None:
        """Take a price record; a later one for the same time replaces the earlier.

        Repeated prices are kept, too: one that comes late for a time between them must not reach
        beyond the next.
        """
        pools: PoolPrices = {pool.pool: pool.price_micro for pool in price.pools}
        self.load(price.market, price.market_time_ms, pools)

    def load(self, market: str, market_time_ms: int, pools: PoolPrices) -> None:
        """Take a price as it was dumped."""
        held = self._markets.setdefault(market, _Market())
        at = bisect_left(held.times_ms, market_time_ms)
        if at < len(held.times_ms) and held.times_ms[at] == market_time_ms:
            held.prices[at] = pools
        else:
            held.times_ms.insert(at, market_time_ms)
            held.prices.insert(at, pools)

    def dump(self, market: str, market_time_ms: int) -> bytes:
        """Return one price as a record of the state topic."""
        held = self._markets[market]
        pools = held.prices[bisect_left(held.times_ms, market_time_ms)]
        return json.dumps(pools, sort_keys=True, separators=(",", ":")).encode()

    def spans(self, market: str, pool: str, start_ms: int, end_ms: int) -> list[PriceSpan] | None:
        """Return the prices in force over [start, end), or None if one is unknown."""
        held = self._markets.get(market)
        if held is None:
            return None
        at = bisect_right(held.times_ms, start_ms) - 1
        if at < 0:
            return None
        spans: list[PriceSpan] = []
        while start_ms < end_ms:
            following = at + 1
            until_ms = end_ms
            if following < len(held.times_ms):
                until_ms = min(end_ms, held.times_ms[following])
            price = held.prices[at].get(pool)
            if price is None:
                return None
            spans.append(PriceSpan(price, start_ms, until_ms))
            start_ms, at = until_ms, following
        return spans

    def prune(self, before_ms: int) -> Iterator[tuple[str, int]]:
        """Forget the prices that were superseded at or before ``before_ms``; yield what went."""
        for market in sorted(self._markets):
            held = self._markets[market]
            count = bisect_right(held.times_ms, before_ms) - 1
            if count > 0:
                yield from [(market, time_ms) for time_ms in held.times_ms[:count]]
                del held.times_ms[:count]
                del held.prices[:count]
