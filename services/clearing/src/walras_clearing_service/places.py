"""Which markets are open to which jobs, at which last price: the bidder's view of cycle n-1."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from walras_clearing_service.job_table import ACTIVE, RUNNING, JobTable
from walras_clearing_service.model import CycleInput, LastClearing, MarketInput
from walras_clearing_service.names import NONE, Names
from walras_contracts.accounts import Gate

Homes = NDArray[np.int32]
"""Per row of the job table the market in which the job is demand, or `NONE`."""
NO_PRICE = -1
"""Stands for "no price is known" in a column of prices."""


class Places:
    """Markets on sale with their size and last prices.

    ``open`` holds by name the markets that are cleared in this cycle, ``sold`` the whole supply
    (macc) of these and of those that are stopped for this cycle only; ``sold_macc`` is the same by
    number, -1 for a market that is not on sale and, at the end, for `NONE`.
    """

    def __init__(self, cycle_input: CycleInput, markets: Names) -> None:
        stopped = frozenset(cycle_input.stopped)
        self.markets = markets
        self.open: dict[str, MarketInput] = {
            market.market: market
            for market in cycle_input.markets
            if market.gate is Gate.ON and market.market not in stopped
        }
        # A market that is stopped for one cycle keeps its jobs: they are not sent elsewhere.
        self.sold: dict[str, int] = {
            market.market: market.total_macc
            for market in cycle_input.markets
            if market.gate is Gate.ON
        }
        numbers = {name: markets.number(name) for name in self.sold}
        self.sold_macc = np.full(len(markets) + 1, -1, dtype=np.int64)
        for name, number in numbers.items():
            self.sold_macc[number] = self.sold[name]
        self.smallest_macc = min(self.sold.values(), default=0)
        self.last: Mapping[str, LastClearing] = cycle_input.last

    def homes(self, jobs: JobTable) -> Homes:
        """Return where every job is demand unless it moves.

        A running job stays where it runs. A pending one stays where it was assigned as long as it
        could fit there at all; else the first acceptable type that it fits counts, else the first
        that is sold.
        """
        rows = jobs.rows
        flags, size_macc, types = jobs.flags[:rows], jobs.size_macc[:rows], jobs.types[:rows]
        found = self._first_sold(jobs)[types]
        large = np.flatnonzero(size_macc > self.smallest_macc)
        found[large] = self._first_that_fits(jobs, large, found[large])
        assigned = np.flatnonzero(jobs.assigned[:rows] != NONE)
        where = jobs.assigned[assigned]
        stays = jobs.type_lists.members()[types[assigned], where]
        stays &= size_macc[assigned] <= self.sold_macc[where]
        found[assigned[stays]] = where[stays]
        running = np.flatnonzero(flags & RUNNING)
        where = jobs.running_in[running]
        found[running] = np.where(self.sold_macc[where] >= 0, where, NONE)
        found[(flags & ACTIVE) == 0] = NONE
        return found

    def prices(self, market: str, pools: tuple[str, ...]) -> NDArray[np.int64]:
        """Return what each pool paid in a market's last clearing, `NO_PRICE` where none is known.

        A pool that is new paid the reference price.
        """
        last = self.last.get(market)
        found = [None if last is None else last.price_for(pool) for pool in pools]
        return np.array([NO_PRICE if price is None else price for price in found], dtype=np.int64)

    def _first_sold(self, jobs: JobTable) -> Homes:
        """Return by list of types the first market that is on sale."""
        matrix = jobs.type_lists.matrix()
        sold = self.sold_macc[matrix] >= 0
        first = matrix[np.arange(len(matrix)), sold.argmax(axis=1)]
        return np.where(sold.any(axis=1), first, NONE).astype(np.int32)

    def _first_that_fits(self, jobs: JobTable, rows: NDArray[np.int64], otherwise: Homes) -> Homes:
        """Return the first market that could hold each job, in the order of its types."""
        lists = jobs.type_lists.matrix()[jobs.types[rows]]
        size_macc = jobs.size_macc[rows]
        found = otherwise.copy()
        # From the last type to the first, so that the first that fits is written last.
        for place in range(lists.shape[1] - 1, -1, -1):
            market = lists[:, place]
            found = np.where(size_macc <= self.sold_macc[market], market, found)
        return found
