"""Whose accelerators a pool's quota was: bought from what all share, or its own."""

from bisect import bisect_right, insort
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from walras.billing_log.amounts import half_even
from walras_contracts.market import CycleRecorded, MarketState


@dataclass(slots=True)
class SupplyShares:
    """Of each cycle of a market, what a pool bought and what it got, from the cycle on.

    A market that halts or skips a cycle leaves quotas as they were; where it is off, or does not
    know the pool, there are none.
    """

    pools: dict[tuple[str, str], list[tuple[int, int, int]]] = field(default_factory=dict)
    """By market and pool: market time, purchased and allocated macc."""

    def take(self, record: CycleRecorded, wanted: Collection[tuple[str, str]]) -> None:
        """Take a cycle, of it the markets and pools that are wanted."""
        if record.state in (MarketState.HALTED, MarketState.SKIPPED):
            return
        got = {pool.pool: (pool.purchased_macc, pool.allocated_macc) for pool in record.pools}
        for key in wanted:
            if key[0] == record.market:
                told = (record.market_time_ms, *got.get(key[1], (0, 0)))
                insort(self.pools.setdefault(key, []), told)

    def pieces(
        self, market: str, pool: str, start_ms: int, end_ms: int
    ) -> Iterator[tuple[int, int, int, int]]:
        """Cut ``[start_ms, end_ms)`` at cycles; yield each piece with purchased and allocated."""
        told = self.pools.get((market, pool), [])
        index = bisect_right(told, start_ms, key=_time_ms) - 1
        while start_ms < end_ms:
            _, purchased, allocated = told[index] if index >= 0 else (0, 0, 0)
            index += 1
            until_ms = min(end_ms, told[index][0]) if index < len(told) else end_ms
            if until_ms > start_ms:
                yield start_ms, until_ms, purchased, allocated
            start_ms = until_ms


def _time_ms(told: tuple[int, int, int]) -> int:
    return told[0]


def shared_part(macc_ms: int, purchased_macc: int, allocated_macc: int) -> int:
    """Return what of use lies on shared supply, in its pool's proportion, to the nearest macc·ms.

    ``allocated_macc`` is above 0.
    """
    return half_even(macc_ms * min(purchased_macc, allocated_macc), allocated_macc)
