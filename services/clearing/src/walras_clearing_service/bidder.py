"""The bidder: from queues, means and last prices to bids; one owner for all markets.

A pure function of cycle n-1's prices and the cycle input (design §4 Bids 1-6), over columns;
`reference_bidder` says the same job by job. Its rules keep prices from sticking at zero and demand
from swinging between substitutes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walras_clearing_service.exact_sums import Column, products_over
from walras_clearing_service.job_table import ACTIVE, MARKED, REFUSED, RUNNING, JobTable, Rows
from walras_clearing_service.model import CycleInput, PoolInput
from walras_clearing_service.moves import Moves
from walras_clearing_service.names import NONE
from walras_clearing_service.offers import Collector, MarketCount, Offer
from walras_clearing_service.places import Homes, Places
from walras_clearing_service.team_table import TeamTable
from walras_contracts.quantities import MICRO_PER_HOUR_MAX, PPM

Bids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BidPlan:
    """What the bidder decided.

    ``offers`` and ``bids`` hold per open market the demand, and what every team bids (µcr per
    hour, one row a team). ``assigned`` and ``unplaceable`` hold changes only, by job key in order.
    """

    offers: Mapping[str, Offer]
    bids: Mapping[str, Bids]
    counts: Mapping[str, MarketCount]
    assigned: Mapping[str, str]
    unplaceable: Mapping[str, int | None]
    pool_index: NDArray[np.int32]
    """Place of each team's pool in id order; -1 for a team without an account and jobs."""


def plan_bids(cycle_input: CycleInput, jobs: JobTable, teams: TeamTable) -> BidPlan:
    """Decide where every job is demand and what every team bids.

    Returns
    -------
    BidPlan
        Bids in µcr per hour; in sum never above a team's cap nor above a pool's cap.
    """
    places = Places(cycle_input, jobs.markets)
    homes = places.homes(jobs)
    Moves(cycle_input, places, jobs, teams).apply(homes)
    demand, unplaceable = _in_demand(cycle_input, places, jobs, homes)
    pool_names = tuple(pool.pool for pool in cycle_input.pools)
    collector = Collector(
        jobs,
        teams,
        teams.caps(cycle_input.parameters.minimum_affordable_minutes),
        _places_in(pool_names, jobs, teams),
        cycle_input.parameters,
        cycle_input.market_time_ms,
    )
    offers, counts = {}, {}
    rows_of = _by_market(demand, homes, len(jobs.markets))
    for name in sorted(places.sold):
        rows = rows_of[jobs.markets.number(name)]
        counts[name] = collector.count(rows)
        if name in places.open:
            prices = places.prices(name, pool_names)
            offers[name] = collector.offer(rows, places.sold[name], prices)
    bids = _bids(offers, collector)
    _scale_to_pools(bids, collector.pool_index, cycle_input.pools)
    assigned = _assigned(jobs, demand, homes)
    return BidPlan(offers, bids, counts, assigned, unplaceable, collector.pool_index)


def _in_demand(
    cycle_input: CycleInput, places: Places, jobs: JobTable, homes: Homes
) -> tuple[Rows, dict[str, int | None]]:
    """Return the jobs that are demand now, and for which of them it changed that they have a place.

    A pending job without a place is left out now and then (design §4 Bids 6).
    """
    flags, size_macc = jobs.flags[: jobs.rows], jobs.size_macc[: jobs.rows]
    # An unknown home has a size of -1, below every job's.
    oversize = size_macc > places.sold_macc[homes]
    demand = ((flags & ACTIVE) != 0) & (homes != NONE)
    strange = oversize | ((flags & (REFUSED | MARKED)) != 0)
    rows = np.flatnonzero(((flags & (ACTIVE | RUNNING)) == ACTIVE) & strange)
    since = jobs.no_place_since[rows]
    nowhere = oversize[rows] | ((flags[rows] & REFUSED) != 0)
    cycle = cycle_input.cycle
    new = nowhere & (since == NONE)
    count = np.where(new, 0, cycle - since)
    demand[rows[nowhere & _left_out(count, cycle_input.parameters.unplaceable_after_cycles)]] = (
        False
    )
    changed: dict[str, int | None] = {jobs.keys[h]: cycle for h in rows[new].tolist()}
    changed.update((jobs.keys[h], None) for h in rows[~nowhere].tolist())
    return np.flatnonzero(demand), dict(sorted(changed.items()))


def _left_out(cycles: NDArray[np.int64], after_cycles: int) -> NDArray[np.bool_]:
    """Whether a job without a place is no demand now: from `after_cycles` on, retried every so."""
    period = max(1, after_cycles)
    found: NDArray[np.bool_] = cycles == period
    found |= (cycles > period) & (cycles % period != 0)
    return found


def _places_in(pool_names: tuple[str, ...], jobs: JobTable, teams: TeamTable) -> NDArray[np.int32]:
    """Return each team's pool as its place in id order."""
    numbers = [jobs.pools.number(name) for name in pool_names]
    # One more, which `NONE` finds.
    place_of = np.full(len(jobs.pools) + 1, NONE, dtype=np.int32)
    place_of[numbers] = np.arange(len(numbers), dtype=np.int32)
    return place_of[teams.pool]


def _by_market(rows: Rows, homes: Homes, markets: int) -> list[Rows]:
    """Return the rows of each market by its number."""
    home = homes[rows]
    ends = np.cumsum(np.bincount(home, minlength=markets))
    # A stable sort of 16-bit numbers takes linear time.
    kind = np.int16 if markets < np.iinfo(np.int16).max else np.int32
    ordered = rows[np.argsort(home.astype(kind), kind="stable")]
    return np.split(ordered, ends[:-1])


def _assigned(jobs: JobTable, rows: Rows, homes: Homes) -> dict[str, str]:
    """Return the markets that must be remembered, by job key in order."""
    first = jobs.type_lists.matrix()[:, 0]
    assigned, home = jobs.assigned[rows], homes[rows]
    # What was derived (the first type) needs no record; a move or a run does.
    derived = np.where(assigned != NONE, assigned, first[jobs.types[rows]])
    found = rows[home != derived].tolist()
    pairs = ((jobs.keys[handle], jobs.markets.names[homes[handle]]) for handle in found)
    return dict(sorted(pairs))


def _bids(offers: Mapping[str, Offer], collector: Collector) -> dict[str, Bids]:
    """Return every team's whole cap split over the markets by demand (design §4 Bids 3).

    Jobs with a limit below half of the last price do not count, unless there are no others.
    """
    bidding: Column = sum((o.bidding_macc for o in offers.values()), np.zeros(1, dtype=np.int64))
    willing: Column = sum((o.willing_macc for o in offers.values()), np.zeros(1, dtype=np.int64))
    high = bidding > 0
    total = np.where(high, bidding, willing)
    bids = {}
    for name, offer in offers.items():
        wanted = np.where(high, offer.bidding_macc, offer.willing_macc)
        bid = np.where((wanted == total) & (total > 0), collector.caps, 0)
        split = np.flatnonzero((wanted > 0) & (wanted < total) & (collector.caps > 0))
        bid[split] = products_over(
            collector.caps[split].tolist(), wanted[split].tolist(), total[split].tolist()
        )
        bids[name] = bid
    return bids


def _scale_to_pools(
    bids: Mapping[str, Bids], pool_index: NDArray[np.int32], pools: tuple[PoolInput, ...]
) -> None:
    """Scale bids in place where a pool's sum exceeds its cap (design §4 Bids 4)."""
    sums = [0] * len(pools)
    for bid in bids.values():
        some = np.flatnonzero(bid)
        for pool, micro in zip(pool_index[some].tolist(), bid[some].tolist(), strict=True):
            sums[pool] += micro
    caps = [
        min(MICRO_PER_HOUR_MAX, pool.leverage_ppm * pool.weight_micro_per_hour // PPM)
        for pool in pools
    ]
    over = np.array([*(s > c for s, c in zip(sums, caps, strict=True)), False], dtype=np.bool_)
    if not over.any():
        return
    for bid in bids.values():
        some = np.flatnonzero(over[pool_index] & (bid > 0))
        pool = pool_index[some].tolist()
        bid[some] = products_over(
            bid[some].tolist(), [caps[k] for k in pool], [sums[k] for k in pool]
        )
