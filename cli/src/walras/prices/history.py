"""The prices of one market over market time, as the log knows them at its end.

A price counts from its market time until the next. Of two records for one time the later in the
log counts. A gap record says what holds while a market had no prices: nothing is billed, or the
price before goes on. What was never told, or told as unknown, is None: never 0.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from walras.billing_log.window import Window
from walras_contracts.accounts import PriceGapPolicy
from walras_contracts.market import PriceGapPublished, PricePublished


class Origin(StrEnum):
    """On whose word a price is in force."""

    PRICE = "price"
    """A cleared cycle's."""
    UNBILLED = "gap_unbilled"
    """A gap record's: use in this time costs nothing."""
    CARRIED = "gap_carry_last"
    """A gap record's: the price before goes on."""
    RESUMED = "gap_ended"
    """A gap record's, behind its end: the price before the gap, until a new one is told."""
    NONE = "none"
    """Nobody's: nothing was told yet."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is in force from a time on."""

    reference_price_micro: int | None
    pools: Mapping[str, int | None]
    origin: Origin

    def price_micro(self, pool: str | None) -> int | None:
        """Return the price of a pool (None: the reference price); None where it is not known."""
        if pool is None:
            return self.reference_price_micro
        return 0 if self.origin is Origin.UNBILLED else self.pools.get(pool)


NOTHING: Final = Told(None, {}, Origin.NONE)
LEANING: Final = (Origin.CARRIED, Origin.RESUMED)


@dataclass(frozen=True, slots=True)
class PriceRow:
    """A price in force over ``[start_ms, end_ms)``; the end None: until something else is told.

    ``since_ms``: since when, though it was told again meanwhile; None: nothing was told yet.
    ``carried_in``: that is before the window.
    """

    start_ms: int
    end_ms: int | None
    since_ms: int | None
    price_micro: int | None
    origin: Origin
    carried_in: bool


@dataclass(slots=True)
class MarketPrices:
    """The prices of one market; records are taken in the order of the log."""

    times_ms: list[int] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    pools: set[str] = field(default_factory=set)
    """Those that a record named."""

    def take(self, event: PricePublished | PriceGapPublished) -> None:
        """Take the next record of the market."""
        if isinstance(event, PriceGapPublished):
            self._gap(event)
            return
        pools = {each.pool: each.price_micro for each in event.pools}
        self.pools |= pools.keys()
        self._put(event.market_time_ms, Told(event.reference_price_micro, pools, Origin.PRICE))

    def at(self, time_ms: int) -> tuple[int | None, Told]:
        """Return since when what is in force at a time was told, and what; None: nothing was."""
        index = bisect_right(self.times_ms, time_ms) - 1
        return (None, NOTHING) if index < 0 else (self.times_ms[index], self._in_force(index))

    def pieces(
        self, pool: str | None, start_ms: int, end_ms: int
    ) -> Iterator[tuple[int, int, int | None]]:
        """Cut ``[start_ms, end_ms)`` where something was told; yield each piece with its price."""
        index = bisect_right(self.times_ms, start_ms) - 1
        while start_ms < end_ms:
            told = self._in_force(index) if index >= 0 else NOTHING
            index += 1
            until_ms = min(end_ms, self.times_ms[index]) if index < len(self.told) else end_ms
            yield start_ms, until_ms, told.price_micro(pool)
            start_ms = until_ms

    def rows(self, pool: str | None, window: Window) -> list[PriceRow]:
        """Return the price in force at the window's start and each change inside it.

        A window without length has one row; one without a start begins with the first record.
        """
        found: list[PriceRow] = []
        if window.from_ms is not None:
            _, told = self.at(window.from_ms)
            since_ms = self._since_ms(pool, window.from_ms)
            carried = since_ms is not None and since_ms < window.from_ms
            found.append(
                PriceRow(
                    window.from_ms,
                    window.to_ms,
                    since_ms,
                    told.price_micro(pool),
                    told.origin,
                    carried,
                )
            )
        first = 0 if window.from_ms is None else bisect_right(self.times_ms, window.from_ms)
        for index in range(first, len(self.told)):
            time_ms, told = self.times_ms[index], self._in_force(index)
            if window.to_ms is not None and time_ms >= window.to_ms:
                break
            price = told.price_micro(pool)
            if found and (found[-1].price_micro, found[-1].origin) == (price, told.origin):
                continue
            if found:
                found[-1] = replace(found[-1], end_ms=time_ms)
            found.append(PriceRow(time_ms, window.to_ms, time_ms, price, told.origin, False))
        return found

    def _since_ms(self, pool: str | None, at_ms: int) -> int | None:
        """Return since when what is in force at a time is; None: nothing was told by then."""
        index = bisect_right(self.times_ms, at_ms) - 1
        if index < 0:
            return None
        told = self._in_force(index)
        said = told.price_micro(pool), told.origin
        while index > 0:
            before = self._in_force(index - 1)
            if (before.price_micro(pool), before.origin) != said:
                break
            index -= 1
        return self.times_ms[index]

    def _in_force(self, index: int) -> Told:
        """Return what a record says; one that leans on the last prices says those."""
        told = self.told[index]
        if told.origin not in LEANING:
            return told
        for before in range(index - 1, -1, -1):
            if self.told[before].origin is Origin.PRICE:
                return replace(self.told[before], origin=told.origin)
        return told

    def _put(self, time_ms: int, told: Told) -> None:
        index = bisect_left(self.times_ms, time_ms)
        if index < len(self.times_ms) and self.times_ms[index] == time_ms:
            self.told[index] = told
        else:
            self.times_ms.insert(index, time_ms)
            self.told.insert(index, told)

    def _gap(self, gap: PriceGapPublished) -> None:
        is_free = gap.policy is PriceGapPolicy.UNBILLED
        self._put(gap.start_ms, Told(None, {}, Origin.UNBILLED if is_free else Origin.CARRIED))
        index = bisect_left(self.times_ms, gap.end_ms)
        # Usually the prices of the cycle that ends the gap follow, and take this one's place.
        if gap.end_ms not in self.times_ms[index : index + 1]:
            self._put(gap.end_ms, Told(None, {}, Origin.RESUMED))
