"""The prices that a log tells: what was known by which step about which time.

A gap record tells of its time that use is free, or that the last price goes on however old it is;
from its end on the last price counts again as if there had been no gap, unless one was told for
that time already. What is told later for the same time takes its place, for those who know it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple

NO_STEP: Final = -1


class Gap(Enum):
    """What is told from a time on without a price of its own."""

    FREE = auto()
    CARRIED = auto()
    ENDED = auto()


POLICIES: Final = {"unbilled": Gap.FREE, "carry_last": Gap.CARRIED}
Prices = dict[str, int | None]


class Run(NamedTuple):
    """One price of a pool over ``[start_ms, end_ms)``; None: not known."""

    start_ms: int
    end_ms: int
    price_micro: int | None
    step: int
    """Step by which it was told; -1: nobody told."""


@dataclass(slots=True)
class _Told:
    """All that was told of the time from an instant on, in the order of the log."""

    steps: list[int] = field(default_factory=list)
    said: list[Prices | Gap] = field(default_factory=list)

    def by(self, step: int, *, prices_only: bool = False) -> int:
        """Return the index of what counts for those who know all up to a step; -1: nothing."""
        index = bisect_right(self.steps, step) - 1
        while prices_only and index >= 0 and isinstance(self.said[index], Gap):
            index -= 1
        return index


class PriceBook:
    """Prices by market, from when each counts."""

    def __init__(self) -> None:
        self._times: dict[str, list[int]] = {}
        self._told: dict[tuple[str, int], _Told] = {}

    def put(self, document: dict[str, Any], step: int) -> None:
        """Take a price record; records come in the order of the log."""
        prices = {pool["pool"]: pool["price_micro"] for pool in document["pools"]}
        self._at(document["market"], document["market_time_ms"], prices, step)

    def put_gap(self, document: dict[str, Any], step: int) -> None:
        """Take a gap record."""
        market, end_ms = document["market"], document["end_ms"]
        self._at(market, document["start_ms"], POLICIES[document["policy"]], step)
        if (market, end_ms) not in self._told:
            self._at(market, end_ms, Gap.ENDED, step)

    def knows(self, market: str, step: int) -> bool:
        """Whether anything was told of a market by a step."""
        return any(self._told[market, at_ms].by(step) >= 0 for at_ms in self._times.get(market, ()))

    def steps(self) -> set[int]:
        """Return the steps that told something of any market."""
        return {step for told in self._told.values() for step in told.steps}

    def _at(self, market: str, from_ms: int, said: Prices | Gap, step: int) -> None:
        told = self._told.get((market, from_ms))
        if told is None:
            times = self._times.setdefault(market, [])
            told = self._told[market, from_ms] = _Told()
            times.insert(bisect_left(times, from_ms), from_ms)
        told.steps.append(step)
        told.said.append(said)

    def runs(
        self, market: str, pool: str, span: tuple[int, int], step: int, max_age_ms: int | None
    ) -> list[Run]:
        """Return the prices of a pool over a span, as known by a step; equal neighbours are one."""
        found: list[Run] = []
        for run in self._parts(market, pool, span, step, max_age_ms):
            if found and found[-1].price_micro == run.price_micro:
                found[-1] = found[-1]._replace(end_ms=run.end_ms)
            else:
                found.append(run)
        return found

    def price(self, market: str, pool: str, at_ms: int, step: int) -> int | None:
        """Return the price of a pool at an instant, as known by a step, however old it is."""
        index = self._in_force(market, at_ms, step)
        return self._said(market, pool, index, step, None)[0]

    def _parts(
        self, market: str, pool: str, span: tuple[int, int], step: int, max_age_ms: int | None
    ) -> Iterator[Run]:
        start_ms, end_ms = span
        times = self._times.get(market, [])
        index = self._in_force(market, start_ms, step)
        while start_ms < end_ms:
            after = index + 1
            while after < len(times) and self._told[market, times[after]].by(step) < 0:
                after += 1
            until_ms = min(end_ms, times[after]) if after < len(times) else end_ms
            price, told, old_ms = self._said(market, pool, index, step, max_age_ms)
            old_ms = until_ms if old_ms is None else min(max(old_ms, start_ms), until_ms)
            if start_ms < old_ms:
                yield Run(start_ms, old_ms, price, told)
            if old_ms < until_ms:
                yield Run(old_ms, until_ms, None, told)
            start_ms, index = until_ms, after

    def _said(
        self, market: str, pool: str, index: int, step: int, max_age_ms: int | None
    ) -> tuple[int | None, int, int | None]:
        """Return a price, the step that told it, and from when it is too old."""
        if index < 0:
            return None, NO_STEP, None
        times = self._times[market]
        told = self._told[market, times[index]]
        at = told.by(step)
        said, by = told.said[at], told.steps[at]
        if said is Gap.FREE:
            return 0, by, None
        ages = said is not Gap.CARRIED
        if isinstance(said, Gap):
            index = self._price_before(market, index, step)
            if index < 0:
                return None, by, None
            told = self._told[market, times[index]]
            at = told.by(step, prices_only=True)
            said, by = told.said[at], told.steps[at]
        assert isinstance(said, dict)
        price = said.get(pool)
        if price is None or max_age_ms is None or not ages:
            return price, by, None
        return price, by, times[index] + max_age_ms

    def _in_force(self, market: str, at_ms: int, step: int) -> int:
        times = self._times.get(market, [])
        index = bisect_right(times, at_ms) - 1
        while index >= 0 and self._told[market, times[index]].by(step) < 0:
            index -= 1
        return index

    def _price_before(self, market: str, index: int, step: int) -> int:
        """Return the index of the last price at or before one; -1: there is none."""
        times = self._times[market]
        while index >= 0 and self._told[market, times[index]].by(step, prices_only=True) < 0:
            index -= 1
        return index

    def later_steps(self, market: str, span: tuple[int, int], step: int) -> list[int]:
        """Return the steps after one that told something which may concern a span."""
        times = self._times.get(market)
        if not times:
            return []
        index = max(0, self._price_before(market, self._in_force(market, span[0], step), step))
        found: set[int] = set()
        while index < len(times) and times[index] < span[1]:
            steps = self._told[market, times[index]].steps
            found.update(steps[bisect_right(steps, step) :])
            index += 1
        return sorted(found)
