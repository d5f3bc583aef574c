"""One job in one market, and the same market with another limit or another bid of its team."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from walras_clearing.arrays import ABSENT
from walras_clearing.book import Book
from walras_clearing.explanation import Threshold
from walras_clearing.model import Job, Market, Team, TeamResult
from walras_clearing.pack import pack
from walras_clearing.queue_share import MILLI, Share, ahead_macc, share_of_job
from walras_clearing.thresholds import least_holding
from walras_clearing.validate import BIDS_MAX_MICRO_PER_HOUR, PRICE_MAX_MICRO

BID_GUESSES: Final = 4
"""So often a guess of the least bid is repeated at the price that the last one led to."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one clearing means for the job, prices in µcr per accelerator-hour."""

    price: int | None
    reference: int | None
    quota: TeamResult
    share: Share


class Case:
    """One job of a valid market in an order book that can be cleared with something else in it.

    Every method that clears puts back what it changed.
    """

    def __init__(self, market: Market, index: int, place: int) -> None:
        self.market = market
        self.place = place
        self.team = market.teams[index]
        self.job = self.team.jobs[place]
        packed = pack(market)
        self._pool = packed.pool_ids.index(self.team.pool)
        self._number = packed.team_ids.index(self.team.team)
        # The jobs stand by team, within one by queue, and their places are their keys.
        self._key = int(np.searchsorted(packed.arrays.team_of_job, self._number)) + place
        self._book = Book.of(packed.arrays)

    def now(self) -> Outcome:
        """Clear the market as it is."""
        return self._outcome(self.team)

    def with_limit(self, limit: int) -> Outcome:
        """Clear with another limit of the job."""
        jobs = list(self.team.jobs)
        jobs[self.place] = replace(self.job, limit_micro=limit)
        self._put(jobs[self.place])
        outcome = self._outcome(replace(self.team, jobs=tuple(jobs)))
        self._put(self.job)
        return outcome

    def with_bid(self, bid: int) -> Outcome:
        """Clear with another bid of the team."""
        self._book.set_bid(self._number, bid)
        outcome = self._outcome(replace(self.team, bid_micro_per_hour=bid))
        self._book.set_bid(self._number, self.team.bid_micro_per_hour)
        return outcome

    def without_reserve(self) -> Outcome:
        """Clear without a reserve price."""
        self._set_reserve(0)
        outcome = self.now()
        self._set_reserve(self.market.reserve_price_micro)
        return outcome

    def bid_room(self) -> int:
        """Return the highest bid of the team that is in range."""
        others = sum(t.bid_micro_per_hour for t in self.market.teams if t.pool == self.team.pool)
        return BIDS_MAX_MICRO_PER_HOUR - others + self.team.bid_micro_per_hour

    def end_of_job(self, price: int) -> int:
        """Return what the queue down to the end of the job wants, as if its limit were met."""
        funded = replace(self.team, bid_micro_per_hour=1)
        return ahead_macc(funded, self.place, price) + self.job.size_macc

    def cost(self, price: int) -> int:
        """Return the least bid that covers the queue down to the job at a price, µcr/h."""
        return max(1, -(-self.end_of_job(price) * price // MILLI))

    def _put(self, job: Job) -> None:
        self._book.upsert_job(self._key, self._number, job.size_macc, job.limit_micro)

    def _set_reserve(self, reserve: int) -> None:
        self._book.set_policies(
            reserve_price_micro=reserve,
            idle_own_supply=self.market.idle_own_supply,
            margin=self.market.margin,
        )

    def _outcome(self, team: Team) -> Outcome:
        result = self._book.clear()
        found = int(result.price_micro[self._pool])
        price = None if found == ABSENT else found
        quota = TeamResult(
            int(result.allocated_macc[self._number]), int(result.opportunistic_macc[self._number])
        )
        share = share_of_job(team, self.place, price, quota)
        return Outcome(price, result.reference_price_micro, quota, share)


def least_limit(case: Case) -> Threshold | None:
    """Return the least limit at which the job runs, or None where no limit in range does.

    In three legs, since with coarse ticks a job can bid up its own price past its money: below the
    least limit at which it takes part it cannot run; from there to the price that it leads to
    without a limit the pool price is its limit; above that price nothing changes any more.
    """
    if case.team.bid_micro_per_hour == 0:
        return None
    try_limit = _remembered(case.with_limit)

    def takes_part_at(limit: int) -> bool:
        price = try_limit(limit).price
        return price is not None and price <= limit

    def runs_at(limit: int) -> bool:
        return try_limit(limit).share.runs

    last, near = PRICE_MAX_MICRO, try_limit(1).price
    first = least_holding(1, last, takes_part_at, max(1, near or 1))
    if first is None:
        return None
    if runs_at(first):
        return _threshold(first, try_limit(first))
    unbounded = try_limit(last).price or 0
    value = least_holding(first + 1, last, runs_at, unbounded)
    if value is None:
        value = least_holding(first + 1, min(unbounded, last), runs_at, first + 1)
    return None if value is None else _threshold(value, try_limit(value))


def least_bid(case: Case, now: Outcome) -> Threshold | None:
    """Return the least bid of the team at which the job runs, or None where no bid in range does.

    The more the team bids the higher is the price; past the job's limit it runs at no bid. So the
    search is for a bid that settles it either way, then among those that leave the price lower.
    """
    limit, last = case.job.limit_micro, case.bid_room()
    if limit == 0:
        return None
    try_bid = _remembered(case.with_bid)

    def reaches_limit(bid: int) -> bool:
        price = try_bid(bid).price
        return limit is not None and price is not None and price >= limit

    def settled(bid: int) -> bool:
        tried = try_bid(bid)
        priced_out = limit is not None and tried.price is not None and tried.price > limit
        return priced_out or tried.share.runs

    near = _guess_bid(case, now.price, last, try_bid)
    value = least_holding(1, last, settled, near)
    if value is not None and not try_bid(value).share.runs:
        tie = least_holding(1, value, reaches_limit, value - 1) or 1
        value = least_holding(1, tie - 1, lambda bid: try_bid(bid).share.runs, near)
    return None if value is None else _threshold(value, try_bid(value))


def _guess_bid(case: Case, price: int | None, last: int, try_bid: Callable[[int], Outcome]) -> int:
    """Follow the price: what the queue down to the job costs at the price that this bid makes."""
    near = 1
    for _ in range(BID_GUESSES):
        if price is None or near == (near := min(last, case.cost(price))):
            break
        price = try_bid(near).price
    return near


def _threshold(value: int, tried: Outcome) -> Threshold:
    return Threshold(value, tried.price, tried.reference)


def _remembered(attempt: Callable[[int], Outcome]) -> Callable[[int], Outcome]:
    """Ask each value once: a clearing costs more than a look-up."""
    known: dict[int, Outcome] = {}

    def asked(value: int) -> Outcome:
        if value not in known:
            known[value] = attempt(value)
        return known[value]

    return asked
