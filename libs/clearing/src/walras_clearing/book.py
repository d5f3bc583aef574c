"""An order book that is edited between clearings, and cleared where the last prices were."""

from typing import Any, Final, Self

import numpy as np

from walras_clearing.arrays import ABSENT, ClearedArrays, Column, MarketArrays, Numbers
from walras_clearing.columns import (
    check_bids,
    check_policies,
    check_supply,
    column,
    integer,
    limit_of,
    numbers,
    order_of,
    whole,
)
from walras_clearing.errors import ClearingInputError
from walras_clearing.kernel import Kernel
from walras_clearing.model import IdleOwnSupply, Margin
from walras_clearing.validate import BIDS_MAX_MICRO_PER_HOUR, QUANTITY_MAX_MACC, WEIGHT_MAX

JOB_KEY_BOUND: Final = 2**27
"""Job keys lie below it; a book holds two tables of that many numbers at most (1 GiB)."""


class Book:
    """One market whose jobs, bids and supply change; `clear` costs what changed.

    Pools are numbers from 0 in id order; teams are numbers from 0, listed in id order by
    ``team_order``; jobs have keys, dense non-negative integers that the caller chooses. The result
    of `clear` depends on what the book holds only, not on how it came to hold it, and equals a cold
    clearing bit for bit.

    Parameters
    ----------
    pools
        How many pools there are, all without supply and weight.
    reserve_price_micro, idle_own_supply, margin
        The policies, as in `Market`.

    Raises
    ------
    ClearingInputError
        From all methods, for what is out of the ranges of design §4.
    """

    def __init__(
        self,
        pools: int,
        *,
        reserve_price_micro: int = 0,
        idle_own_supply: IdleOwnSupply = "keep",
        margin: Margin = "pro_rata",
    ) -> None:
        self._pools = integer("pools", pools, 2**31 - 1)
        self._kernel = Kernel(pools)
        self._weight: Column = np.zeros(pools, np.int64)
        self._pool_of_team: Numbers = np.zeros(0, np.int32)
        self._team_order: Numbers | None = None
        self._bids: Column = np.zeros(0, np.int64)
        self._own: Column = np.zeros(pools, np.int64)
        self._shared = 0
        self.set_policies(
            reserve_price_micro=reserve_price_micro, idle_own_supply=idle_own_supply, margin=margin
        )

    @classmethod
    def of(cls, market: MarketArrays) -> Self:
        """Return a book that holds a market; the key of each job is its row."""
        book = cls(
            len(market.own_supply_macc),
            reserve_price_micro=market.reserve_price_micro,
            idle_own_supply=market.idle_own_supply,
            margin=market.margin,
        )
        book.set_supply(market.shared_supply_macc, market.own_supply_macc)
        book.set_pool_weights(market.pool_weight)
        book.set_teams(market.pool_of_team, market.team_order)
        book.set_bids(market.bid_micro_per_hour)
        keys = np.arange(len(market.team_of_job), dtype=np.int32)
        book.upsert_jobs(keys, market.team_of_job, market.size_macc, market.limit_micro)
        return book

    def __len__(self) -> int:
        return self._kernel.jobs

    def set_policies(
        self, *, reserve_price_micro: int, idle_own_supply: IdleOwnSupply, margin: Margin
    ) -> None:
        """Set the policies, prices in µcr per accelerator-hour."""
        check_policies(reserve_price_micro, idle_own_supply, margin)
        self._policies = (reserve_price_micro, idle_own_supply, margin)
        self._kernel.set_policies(
            reserve_price_micro, idle_own_supply == "lend", margin == "strict_order"
        )

    def set_supply(self, shared_macc: int, own_macc: Any) -> None:
        """Set the shared supply and the own supply of every pool, in macc."""
        own = column("own_supply_macc", own_macc, self._pools, QUANTITY_MAX_MACC)
        check_supply(shared_macc, own)
        self._shared, self._own = shared_macc, own.copy()
        self._kernel.set_supply(shared_macc, own)

    def set_pool_weights(self, weight: Any) -> None:
        """Set the weights, which order strict margins and leftovers."""
        self._weight = column("pool_weight", weight, self._pools, WEIGHT_MAX).copy()
        self._kernel.set_order(heaviest_first(self._weight))

    def set_teams(self, pool_of_team: Any, team_order: Any = None) -> None:
        """Set the pool of every team, and the teams in id order where numbers are not.

        May be called again with more teams, other pools and another order; jobs and bids stay, new
        teams bid nothing.
        """
        count = len(pool_of_team)
        if count < len(self._bids):
            message = f"{len(self._bids)} teams are known, {count} were given"
            raise ClearingInputError("wrong_length", "pool_of_team", message)
        pools = numbers("pool_of_team", pool_of_team, count, self._pools, "unknown_pool")
        order = order_of(team_order, count)
        bids = np.zeros(count, np.int64)
        bids[: len(self._bids)] = self._bids
        check_bids(bids, pools, self._pools)
        self._kernel.set_teams(pools, order)
        self._pool_of_team, self._bids = pools.copy(), bids
        self._team_order = None if order is None else order.copy()

    def set_bid(self, team: int, bid_micro_per_hour: int) -> None:
        """Set what one team may spend, in µcr per hour."""
        self._known_team(team)
        integer("bid_micro_per_hour", bid_micro_per_hour, BIDS_MAX_MICRO_PER_HOUR)
        if not self._kernel.set_bid(team, bid_micro_per_hour):
            message = f"the bids of the pool exceed {BIDS_MAX_MICRO_PER_HOUR} in sum"
            raise ClearingInputError("sum_above_maximum", "bid_micro_per_hour", message)
        self._bids[team] = bid_micro_per_hour

    def set_bids(self, bids_micro_per_hour: Any) -> None:
        """Set what every team may spend, in µcr per hour."""
        bids = column(
            "bid_micro_per_hour", bids_micro_per_hour, len(self._bids), BIDS_MAX_MICRO_PER_HOUR
        )
        check_bids(bids, self._pool_of_team, self._pools)
        self._bids = bids.copy()
        self._kernel.set_bids(bids)

    def upsert_job(self, job: int, team: int, size_macc: int, limit_micro: int | None) -> None:
        """Add a job, or change the one of that key; a limit of None accepts any price."""
        integer("job", job, JOB_KEY_BOUND - 1)
        self._known_team(team)
        integer("size_macc", size_macc, QUANTITY_MAX_MACC)
        self._kernel.put(job, team, size_macc, limit_of("limit_micro", limit_micro))

    def upsert_jobs(self, jobs: Any, teams: Any, sizes_macc: Any, limits_micro: Any) -> None:
        """Add or change jobs by columns, `NO_LIMIT` for none; a key that occurs twice: the last.

        All are checked before any is taken.
        """
        count = len(jobs)
        keys = numbers("jobs", jobs, count, JOB_KEY_BOUND, "above_maximum")
        team = numbers("teams", teams, count, len(self._bids), "unknown_team")
        size = column("sizes_macc", sizes_macc, count, QUANTITY_MAX_MACC)
        limit = whole("limits_micro", limits_micro, count, np.int64)
        self._kernel.check_rows(team, size, limit)
        bound = int(keys.max(initial=-1)) + 1
        if len(self) == 0 and self._kernel.load(team, size, limit, keys, bound):
            return
        self._kernel.put_all(keys, team, size, limit)

    def remove_job(self, job: int) -> None:
        """Let go of a job."""
        self.remove_jobs([job])

    def remove_jobs(self, jobs: Any) -> None:
        """Let go of jobs by a column of keys; all must be known, or none goes."""
        keys = np.unique(numbers("jobs", jobs, len(jobs), JOB_KEY_BOUND, "unknown_job"))
        if len(keys) < len(jobs):
            raise ClearingInputError("duplicate_id", "jobs", "a job can go only once")
        self._kernel.take_all(keys)

    def clear(self) -> ClearedArrays:
        """Clear the market as it stands (design §4); the result is by pool and team number."""
        if self._kernel.quantity > QUANTITY_MAX_MACC:
            message = f"the sum in this market exceeds {QUANTITY_MAX_MACC} macc"
            raise ClearingInputError("sum_above_maximum", "size_macc", message)
        return cleared(self._kernel, self._policies[0])

    def market(self) -> MarketArrays:
        """Return a copy of what the book holds; jobs by team."""
        team, size, limit, _ = self._kernel.jobs_by_team()
        reserve, idle_own_supply, margin = self._policies
        return MarketArrays(
            shared_supply_macc=self._shared,
            own_supply_macc=self._own.copy(),
            pool_weight=self._weight.copy(),
            pool_of_team=self._pool_of_team.copy(),
            bid_micro_per_hour=self._bids.copy(),
            team_of_job=team,
            size_macc=size,
            limit_micro=limit,
            reserve_price_micro=reserve,
            idle_own_supply=idle_own_supply,
            margin=margin,
            team_order=None if self._team_order is None else self._team_order.copy(),
        )

    def job_keys(self) -> Numbers:
        """Return the keys of all jobs, in the order of `market`."""
        return self._kernel.jobs_by_team()[3]

    def _known_team(self, team: int) -> None:
        integer("team", team, 2**31 - 1)
        if team >= len(self._bids):
            raise ClearingInputError("unknown_team", "team", f"no team has the number {team}")


def heaviest_first(weight: Column) -> Numbers:
    """Return pool numbers by falling weight, ties by number."""
    return np.lexsort((np.arange(len(weight)), -weight)).astype(np.int32)


def cleared(kernel: Kernel, reserve_price_micro: int) -> ClearedArrays:
    """Clear what a kernel holds."""
    price, pools, teams = kernel.clear()
    shown = price != ABSENT and price > reserve_price_micro
    return ClearedArrays(
        reference_price_micro=None if price == ABSENT else price,
        price_micro=pools[0],
        purchased_macc=pools[1],
        pool_allocated_macc=pools[2],
        price_below_micro=pools[3] if shown else None,
        allocated_macc=teams[0],
        opportunistic_macc=teams[1],
    )
