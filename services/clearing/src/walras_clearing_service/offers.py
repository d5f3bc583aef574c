"""What is demand in each market: its jobs, the limits that they carry, the sums of its teams."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walras_clearing.arrays import NO_LIMIT
from walras_clearing_service.exact_sums import Column, sum_of, sums_by
from walras_clearing_service.job_table import DRAINING, GANG, RUNNING, JobTable, Rows
from walras_clearing_service.model import BidderParameters
from walras_clearing_service.names import NONE
from walras_clearing_service.places import NO_PRICE
from walras_clearing_service.team_table import TeamTable
from walras_contracts.quantities import LIMIT_MICRO_MAX, MACC_MAX, PPM

Prices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MarketCount:
    """Jobs of a market: pending ones, those that hold devices, and the devices held (macc)."""

    queued: int
    running: int
    running_macc: int


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """The demand of one open market: one row a job in ``rows``, one row a team in the sums.

    ``limit_micro`` is as it enters the auction. ``takes_part`` says which teams offered a job,
    ``willing_macc`` what of each team may draw a bid, ``bidding_macc`` what of that does at the
    last price.
    """

    rows: Rows
    team: NDArray[np.int32]
    size_macc: NDArray[np.int64]
    limit_micro: NDArray[np.int64]
    takes_part: NDArray[np.bool_]
    willing_macc: Column
    bidding_macc: Column


@dataclass(frozen=True, slots=True, eq=False)
class Collector:
    """What all markets' offers are made of in one cycle.

    ``caps`` is what each team may bid at all, ``pool_index`` the place of its pool in id order
    (-1: it has none), ``now_ms`` market time.
    """

    jobs: JobTable
    teams: TeamTable
    caps: NDArray[np.int64]
    pool_index: NDArray[np.int32]
    parameters: BidderParameters
    now_ms: int

    def count(self, rows: Rows) -> MarketCount:
        """Count the jobs of a market."""
        running = rows[(self.jobs.flags[rows] & RUNNING) != 0]
        held_macc = sum_of(self.jobs.size_macc[running])
        return MarketCount(len(rows) - len(running), len(running), held_macc)

    def offer(self, rows: Rows, sold_macc: int, pool_prices: Prices) -> Offer:
        """Return what a market's jobs offer.

        Pending jobs that are larger than all that the market has are left out, since they could
        only take what others can use, and so are gangs that their team cannot pay for (design §4
        Bids 6).

        Parameters
        ----------
        rows
            Jobs of the market.
        pool_prices
            By place of the pool in id order, `NO_PRICE` where none is known.
        """
        jobs = self.jobs
        flags, size_macc = jobs.flags[rows], jobs.size_macc[rows]
        prices = np.append(pool_prices, NO_PRICE)[self.pool_index]
        out = ((flags & RUNNING) == 0) & (size_macc > sold_macc)
        gangs = np.flatnonzero((flags & (GANG | RUNNING)) == GANG)
        out[gangs] |= self._unaffordable(rows[gangs], prices)
        if out.any():
            rows, size_macc = rows[~out], size_macc[~out]
        team = jobs.team[rows]
        limit_micro = self._limits(rows)
        groups = len(self.teams)
        takes_part = np.zeros(groups, dtype=np.bool_)
        takes_part[team] = True
        willing = np.where(limit_micro == 0, 0, size_macc)
        # 2·limit ≥ price; a price that is not known is below 0, and every limit exceeds its half.
        halves = (prices + 1) // 2
        bidding = np.where(limit_micro >= halves[team], willing, 0)
        sums = (sums_by(team, willing, groups), sums_by(team, bidding, groups))
        admitted = self._admitted(rows, size_macc)
        if admitted is not None:
            rows, team = rows[admitted], team[admitted]
            size_macc, limit_micro = size_macc[admitted], limit_micro[admitted]
        return Offer(rows, team, size_macc, limit_micro, takes_part, *sums)

    def _limits(self, rows: Rows) -> NDArray[np.int64]:
        """Return the limits with retention (design §4 Bids 5)."""
        jobs = self.jobs
        limits = jobs.limit_micro[rows]
        started = np.flatnonzero(jobs.started_ms[rows] != NONE)
        mine = rows[started]
        ends_ms = jobs.started_ms[mine] + jobs.minimum_run_ms[mine]
        kept = (self.now_ms < ends_ms) & ((jobs.flags[mine] & DRAINING) == 0)
        kept &= limits[started] != NO_LIMIT
        started = started[kept]
        gap_ppm = self.parameters.retention_gap_ppm
        limits[started] = retained_limits(limits[started], gap_ppm)
        return limits

    def _unaffordable(self, rows: Rows, prices: Prices) -> NDArray[np.bool_]:
        """Whether leverage times income of its team does not pay for each pending gang."""
        jobs, teams = self.jobs, self.teams
        team = jobs.team[rows]
        # A team that bids nothing pays nothing: its jobs may still run on leftovers.
        asked = (jobs.limit_micro[rows] != 0) & (self.caps[team] > 0)
        bounds = teams.largest_affordable_macc(prices)
        found: NDArray[np.bool_] = asked & (jobs.size_macc[rows] > bounds[team])
        return found

    def _admitted(self, rows: Rows, size_macc: NDArray[np.int64]) -> NDArray[np.intp] | None:
        """Return which jobs a market can take at all (design §4), None: all of them.

        Only where the sizes offered exceed 10^15 macc does anything wait: pending jobs, beyond what
        those that hold devices leave, in order of team and queue.
        """
        if sum_of(size_macc) <= MACC_MAX:
            return None
        jobs = self.jobs
        holding = (jobs.flags[rows] & RUNNING) != 0
        left_macc = MACC_MAX - sum_of(size_macc[holding])
        order = queue_order(jobs, self.teams, rows).tolist()
        admitted = holding.copy()
        for place in order:
            size = int(size_macc[place])
            if not holding[place] and size <= left_macc:
                left_macc -= size
                admitted[place] = True
        return np.flatnonzero(admitted)


def retained_limits(limits: NDArray[np.int64], retention_gap_ppm: int) -> NDArray[np.int64]:
    """Return the limits that running jobs carry into the auction (design §4 Bids 5)."""
    factor = PPM + retention_gap_ppm
    # limit·factor/PPM in two parts, since the product may leave 64 bits.
    whole, rest = limits // PPM, limits % PPM
    retained: NDArray[np.int64] = whole * factor + rest * factor // PPM
    return np.minimum(LIMIT_MICRO_MAX, retained)


def queue_order(jobs: JobTable, teams: TeamTable, rows: Rows) -> NDArray[np.intp]:
    """Return the order of jobs by team id, queue position and key, as places in ``rows``."""
    ranks = teams.ranks()[jobs.team[rows]]
    positions = jobs.position[rows]
    order = np.lexsort((positions, ranks))
    same = (ranks[order][1:] == ranks[order][:-1]) & (positions[order][1:] == positions[order][:-1])
    if same.any():
        _order_equals_by_key(jobs, rows, order, same)
    return order


def _order_equals_by_key(
    jobs: JobTable, rows: Rows, order: NDArray[np.intp], same: NDArray[np.bool_]
) -> None:
    """Sort runs of jobs that have one team and position by their keys, in place."""
    edges = np.diff(np.concatenate(([False], same, [False])).astype(np.int8))
    starts, ends = np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist()
    for start, end in zip(starts, ends, strict=True):
        run = order[start : end + 1].tolist()
        run.sort(key=lambda place: jobs.keys[rows[place]])
        order[start : end + 1] = run
