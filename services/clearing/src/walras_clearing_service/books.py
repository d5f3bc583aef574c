"""One order book a market, fed with what differs from what was offered last.

A `Book` of the clearing library is memory, not state: it is built anew from the columns where it is
missing, was dropped, or has another number of pools, and clears to the same prices.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from walras_clearing.arrays import ClearedArrays, MarketArrays
from walras_clearing.model import IdleOwnSupply, Margin
from walras_clearing_service.bidder import Bids
from walras_clearing_service.job_table import JobTable, Rows
from walras_clearing_service.model import MarketInput, PoolInput
from walras_clearing_service.names import NONE
from walras_clearing_service.offers import Offer

Numbers = NDArray[np.int32]
Column = NDArray[np.int64]


class AuctionBook(Protocol):
    """What the service needs of `walras_clearing.Book`; jobs and teams are handles."""

    def set_policies(
        self, *, reserve_price_micro: int, idle_own_supply: IdleOwnSupply, margin: Margin
    ) -> None:
        """Set reserve price, what happens to idle own supply, and how the margin is shared."""

    def set_supply(self, shared_macc: int, own_macc: Column) -> None:
        """Set the shared supply and each pool's own."""

    def set_pool_weights(self, weight: Column) -> None:
        """Set the pools' market weights."""

    def set_teams(self, pool_of_team: Numbers, team_order: Numbers | None) -> None:
        """Set the pool of every team, and the teams in id order."""

    def set_bids(self, bids: Column) -> None:
        """Set what every team bids."""

    def upsert_jobs(self, jobs: Numbers, teams: Numbers, sizes: Column, limits: Column) -> None:
        """Add jobs, or change them."""

    def remove_jobs(self, jobs: Numbers) -> None:
        """Remove jobs."""

    def clear(self) -> ClearedArrays:
        """Clear the market."""


@dataclass(frozen=True, slots=True)
class Solver:
    """The auction and its checker, as the clearing library provides them.

    ``open_book`` makes an empty book for a number of pools. ``verify`` returns what is wrong with
    a result; nothing means that it is right.
    """

    open_book: Callable[[int], AuctionBook]
    verify: Callable[[MarketArrays, ClearedArrays], Sequence[object]]


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """How a market's offer differs from its last: places in the offer, and rows that left it."""

    changed: NDArray[np.intp]
    gone: Rows


def differences(jobs: JobTable, offers: Mapping[str, Offer]) -> dict[str, Difference]:
    """Return for every offer how it differs from what its market's book holds."""
    rows = jobs.rows
    now_in = np.full(rows, NONE, dtype=np.int32)
    numbers = {name: jobs.markets.number(name) for name in offers}
    for name, offer in offers.items():
        now_in[offer.rows] = numbers[name]
    was_in = jobs.offered_in[:rows]
    gone = np.flatnonzero((was_in != NONE) & (was_in != now_in))
    found = {}
    for name, offer in offers.items():
        left = gone[was_in[gone] == numbers[name]]
        found[name] = difference_of(jobs, name, offer, left)
    return found


def difference_of(jobs: JobTable, market: str, offer: Offer, gone: Rows) -> Difference:
    """Return how an offer differs from the last that its market's book held.

    Parameters
    ----------
    gone
        Rows that left it.
    """
    mine = offer.rows
    changed = jobs.offered_in[mine] != jobs.markets.number(market)
    changed |= jobs.offered_macc[mine] != offer.size_macc
    changed |= jobs.offered_limit_micro[mine] != offer.limit_micro
    return Difference(np.flatnonzero(changed), gone)


def remember_offer(jobs: JobTable, market: str, offer: Offer, difference: Difference) -> None:
    """Note in the columns that a market's book holds its offer."""
    number = jobs.markets.number(market)
    # A job that went on to another market may be noted there already.
    gone = difference.gone[jobs.offered_in[difference.gone] == number]
    jobs.offered_in[gone] = NONE
    changed = difference.changed
    rows = offer.rows[changed]
    jobs.offered_in[rows] = number
    jobs.offered_macc[rows] = offer.size_macc[changed]
    jobs.offered_limit_micro[rows] = offer.limit_micro[changed]


def forget_offer(jobs: JobTable, market: str) -> None:
    """Note in the columns that there is no book that holds a market's offer."""
    held = jobs.offered_in[: jobs.rows]
    held[held == jobs.markets.number(market)] = NONE


class Books:
    """The books of all markets."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._held: dict[str, _Held] = {}

    def held(self) -> frozenset[str]:
        """Return the markets that have a book."""
        return frozenset(self._held)

    def drop(self, market: str) -> None:
        """Forget a market's book; the next cycle builds it anew."""
        self._held.pop(market, None)

    def drop_all(self) -> None:
        """Forget all books."""
        self._held.clear()

    def clear(
        self, name: str, market: MarketArrays, offer: Offer, difference: Difference
    ) -> ClearedArrays:
        """Feed a market's book and clear it.

        Parameters
        ----------
        market
            The whole market; the book is fed with its jobs by ``difference``.
        """
        held = self._held.get(name)
        pools = len(market.own_supply_macc)
        if held is None or held.pools != pools:
            held = _Held(self._solver.open_book(pools), pools)
        # Only a book that was fed wholly may be met by the next cycle.
        self._held.pop(name, None)
        held.feed(market, offer, difference)
        result = held.book.clear()
        self._held[name] = held
        return result


@dataclass(slots=True, eq=False)
class _Held:
    """A book, and what of the teams it was told last."""

    book: AuctionBook
    pools: int
    is_fed: bool = False
    pool_of_team: Numbers | None = None
    team_order: Numbers | None = None

    def feed(self, market: MarketArrays, offer: Offer, difference: Difference) -> None:
        """Bring the book up to date."""
        book = self.book
        book.set_policies(
            reserve_price_micro=market.reserve_price_micro,
            idle_own_supply=market.idle_own_supply,
            margin=market.margin,
        )
        book.set_supply(market.shared_supply_macc, market.own_supply_macc)
        book.set_pool_weights(market.pool_weight)
        teams = (market.pool_of_team, market.team_order)
        if not (_same(self.pool_of_team, teams[0]) and _same(self.team_order, teams[1])):
            if self.pool_of_team is not None:
                # Old bids must not stand in the way of teams that change their pool.
                book.set_bids(np.zeros(len(self.pool_of_team), dtype=np.int64))
            book.set_teams(*teams)
            self.pool_of_team, self.team_order = teams
        jobs = slice(None) if not self.is_fed else difference.changed
        if self.is_fed and len(difference.gone):
            book.remove_jobs(difference.gone.astype(np.int32))
        rows = offer.rows[jobs].astype(np.int32)
        if len(rows):
            sizes, limits = offer.size_macc[jobs], offer.limit_micro[jobs]
            book.upsert_jobs(rows, offer.team[jobs], sizes, limits)
        self.is_fed = True
        book.set_bids(market.bid_micro_per_hour)


def market_arrays(
    market: MarketInput,
    pools: Sequence[PoolInput],
    offer: Offer,
    bids: Bids,
    *,
    pool_index: Numbers,
    team_order: Numbers,
) -> MarketArrays:
    """Return a market as the clearing library takes it, from the columns, not from its book.

    Parameters
    ----------
    pool_index
        Place of each team's pool in ``pools``.
    team_order
        All teams in the order of their ids.
    """
    # Without pools there are no jobs, and no pool for a team to be in.
    teams = len(pool_index) if pools else 0
    return MarketArrays(
        shared_supply_macc=market.shared_macc,
        own_supply_macc=np.array(
            [market.own_macc.get(pool.pool, 0) for pool in pools], dtype=np.int64
        ),
        pool_weight=np.array([pool.weight_micro_per_hour for pool in pools], dtype=np.int64),
        # A team without a pool has no jobs; any pool will do.
        pool_of_team=np.maximum(pool_index[:teams], 0),
        bid_micro_per_hour=bids[:teams],
        team_of_job=offer.team,
        size_macc=offer.size_macc,
        limit_micro=offer.limit_micro,
        reserve_price_micro=market.reserve_price_micro,
        idle_own_supply=market.idle_own_supply.value,
        margin=market.margin.value,
        team_order=team_order[:teams],
    )


def _same(one: Numbers | None, other: Numbers | None) -> bool:
    return one is not None and other is not None and np.array_equal(one, other)
