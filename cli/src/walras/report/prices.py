"""Prices and supply over time: what the report rates use with, and what it draws."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from walras.report.records import LogRecord
from walras.report.series import Bins, nearest_rank, ratio_ppm
from walras_contracts.accounts import PriceGapPolicy
from walras_contracts.market import PriceGapPublished


@dataclass(slots=True)
class History:
    """A value that holds from its time until the next one's; times ascend."""

    times_ms: list[int] = field(default_factory=list)
    values: list[int | None] = field(default_factory=list)
    _cursor: int = 0
    """Where the last question was answered; the next one mostly falls into the same piece."""

    def put(self, time_ms: int, value: int | None) -> None:
        """Add a value; one for the same time takes the earlier one's place."""
        if self.times_ms and self.times_ms[-1] == time_ms:
            self.values[-1] = value
            return
        self.times_ms.append(time_ms)
        self.values.append(value)

    def pieces(self, start_ms: int, end_ms: int) -> Iterator[tuple[int, int, int | None]]:
        """Cut [start_ms, end_ms) where the value changes; None before the first value."""
        index = bisect_right(self.times_ms, start_ms) - 1
        while start_ms < end_ms:
            following = index + 1
            until_ms = end_ms
            if following < len(self.times_ms):
                until_ms = min(end_ms, self.times_ms[following])
            yield start_ms, until_ms, self.values[index] if index >= 0 else None
            start_ms, index = until_ms, following

    def integral(self, start_ms: int, end_ms: int, limit: int | None) -> tuple[int, int]:
        """Return value × time of [start_ms, end_ms), and the time without a value.

        Where there is a limit, the value counts at most as much.
        """
        times_ms = self.times_ms
        index = self._cursor
        if not (
            index < len(times_ms) - 1
            and times_ms[index] <= start_ms
            and end_ms <= times_ms[index + 1]
        ):
            return self._integral(start_ms, end_ms, limit)
        value = self.values[index]
        if value is None:
            return 0, end_ms - start_ms
        if limit is not None and limit < value:
            value = limit
        return value * (end_ms - start_ms), 0

    def _integral(self, start_ms: int, end_ms: int, limit: int | None) -> tuple[int, int]:
        self._cursor = max(0, bisect_right(self.times_ms, start_ms) - 1)
        whole = without_ms = 0
        for from_ms, until_ms, value in self.pieces(start_ms, end_ms):
            if value is None:
                without_ms += until_ms - from_ms
            else:
                counted = value if limit is None else min(value, limit)
                whole += counted * (until_ms - from_ms)
        return whole, without_ms


@dataclass(slots=True)
class PriceBook:
    """Reference prices by market, pool prices by (market, pool)."""

    reference: dict[str, History] = field(default_factory=dict)
    pools: dict[tuple[str, str], History] = field(default_factory=dict)

    def fold(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``prices``."""
        for record in records:
            body = record.body()
            if record.type == PriceGapPublished.TYPE:
                self._gap(body)
                continue
            market, time_ms = body["market"], body["market_time_ms"]
            self.reference.setdefault(market, History()).put(time_ms, body["reference_price_micro"])
            for pool in body["pools"]:
                history = self.pools.get((market, pool["pool"]))
                if history is None:
                    history = self.pools[market, pool["pool"]] = History()
                history.put(time_ms, pool["price_micro"])

    def _gap(self, body: dict[str, Any]) -> None:
        """Take a time without prices: nothing is billed, or what is in force goes on."""
        if body["policy"] != PriceGapPolicy.UNBILLED.value:
            return
        for (market, _), history in self.pools.items():
            if market == body["market"]:
                history.put(body["start_ms"], 0)
        if body["market"] in self.reference:
            self.reference[body["market"]].put(body["start_ms"], None)

    def last_time_ms(self) -> int | None:
        """Return the market time of the newest price."""
        return max((h.times_ms[-1] for h in self.reference.values()), default=None)

    def report(self, bins: Bins) -> dict[str, Any]:
        """Return per market the statistics of its prices and their means per bin."""
        found: dict[str, Any] = {}
        for market, history in sorted(self.reference.items()):
            known = sorted(v for v in history.values if v is not None)
            found[market] = {
                "cycles": len(history.values),
                "cycles_above_zero_ppm": ratio_ppm(sum(v > 0 for v in known), len(history.values)),
                "minimum_micro": known[0] if known else None,
                "median_micro": nearest_rank(known, 50),
                "mean_micro": sum(known) // len(known) if known else None,
                "maximum_micro": known[-1] if known else None,
                "reference_micro": _means(history, bins),
                "pools": {
                    pool: _means(self.pools[name, pool], bins)
                    for name, pool in sorted(self.pools)
                    if name == market
                },
            }
        return found


def _means(history: History, bins: Bins) -> list[int | None]:
    """Return the time-weighted mean of each bin over the time that has a value."""
    found: list[int | None] = []
    for start_ms in bins.starts():
        weighted = known_ms = 0
        end_ms = min(start_ms + bins.width_ms, bins.end_ms)
        for piece_ms, until_ms, value in history.pieces(start_ms, end_ms):
            if value is not None:
                weighted += value * (until_ms - piece_ms)
                known_ms += until_ms - piece_ms
        found.append(weighted // known_ms if known_ms else None)
    return found


@dataclass(slots=True)
class SupplyBook:
    """What each market had to sell: shared and own, withheld left out."""

    markets: dict[str, History] = field(default_factory=dict)

    def fold(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``supply``."""
        for record in records:
            body = record.body()
            total_macc = body["shared_macc"] + sum(own["macc"] for own in body["own"])
            history = self.markets.setdefault(body["market"], History())
            history.put(body["market_time_ms"], total_macc)

    def macc_ms(self, market: str, bins: Bins) -> list[int]:
        """Return supply × time in each bin."""
        amounts = [0] * bins.count
        history = self.markets.get(market, History())
        for start_ms, end_ms, value in history.pieces(bins.start_ms, bins.end_ms):
            if value:
                bins.add(amounts, start_ms, end_ms, value)
        return amounts
