"""Seeded markets of any size: what a fleet's queue looks like, in columns.

Sizes are 2⁰ to 2⁸ accelerators, limits log-normal around 30 credits per accelerator-hour, one job
in twenty without a limit, a few at limit 0. The supply is 40 % of the demand; half of the pools own
a part of it. Bids are drawn around what the demand of a team costs at the expected price, so that
about half of the teams run out of money before they run out of jobs.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walras_clearing.arrays import NO_LIMIT, Column, MarketArrays

MACC_PER_ACCELERATOR: Final = 1_000
LARGEST_SIZE_EXPONENT: Final = 8
MEDIAN_LIMIT_MICRO: Final = 30_000_000
LIMIT_SIGMA: Final = 0.5
WITHOUT_LIMIT: Final = 0.05
AT_LIMIT_ZERO: Final = 0.01
SUPPLY_PERCENT: Final = 40
OWN_SUPPLY_PERCENT: Final = 12
"""Part of the demand that the pools own; the rest of the supply is shared."""
BID_SIGMA: Final = 0.6
BID_LEVEL: Final = 0.85
CHUNK_JOBS: Final = 1 << 20
"""Jobs drawn at a time: a market of 10⁷ jobs must not need the memory of its own drawing twice."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a market is; `single_level` leaves one pool without own supply."""

    jobs: int
    teams: int
    pools: int = 50
    single_level: bool = False


def scale_of(jobs: int, *, jobs_per_team: int = 100, pools: int = 50) -> Scale:
    """Return the usual shape at a number of jobs."""
    return Scale(jobs, max(1, jobs // jobs_per_team), pools)


def draw_arrays(scale: Scale, seed: int) -> MarketArrays:
    """Draw a market; a function of its two arguments alone."""
    rng = np.random.default_rng(seed)
    pools = 1 if scale.single_level else scale.pools
    team_of_job = np.empty(scale.jobs, np.int32)
    size = np.empty(scale.jobs, np.int64)
    limit = np.empty(scale.jobs, np.int64)
    for first in range(0, scale.jobs, CHUNK_JOBS):
        rows = slice(first, min(first + CHUNK_JOBS, scale.jobs))
        count = rows.stop - rows.start
        team_of_job[rows] = rng.integers(0, scale.teams, count)
        size[rows] = draw_sizes(rng, count)
        limit[rows] = draw_limits(rng, count)
    pool_of_team = rng.permutation(np.arange(scale.teams, dtype=np.int32) % np.int32(pools))
    expected = int(np.quantile(limit[:CHUNK_JOBS], 0.45))
    wanted = _wanted_at(team_of_job, size, limit, expected, scale.teams)
    demand = int(size.sum())
    own = np.zeros(pools, np.int64)
    if not scale.single_level:
        owners = rng.permutation(pools)[: max(1, pools // 2)]
        share = rng.dirichlet(np.full(len(owners), 4.0))
        own[owners] = (share * (demand * OWN_SUPPLY_PERCENT // 100)).astype(np.int64)
    return MarketArrays(
        shared_supply_macc=demand * SUPPLY_PERCENT // 100 - int(own.sum()),
        own_supply_macc=own,
        pool_weight=rng.integers(1, 1_000_000, pools),
        pool_of_team=pool_of_team,
        bid_micro_per_hour=draw_bids(rng, wanted, expected),
        team_of_job=team_of_job,
        size_macc=size,
        limit_micro=limit,
    )


def draw_sizes(rng: np.random.Generator, count: int) -> Column:
    """Draw job sizes in macc."""
    exponent = rng.integers(0, LARGEST_SIZE_EXPONENT + 1, count)
    return np.left_shift(MACC_PER_ACCELERATOR, exponent).astype(np.int64)


def draw_limits(rng: np.random.Generator, count: int) -> Column:
    """Draw limit prices in µcr per accelerator-hour, `NO_LIMIT` among them."""
    limit = (MEDIAN_LIMIT_MICRO * rng.lognormal(0.0, LIMIT_SIGMA, count)).astype(np.int64)
    kind = rng.random(count)
    limit[kind < WITHOUT_LIMIT] = NO_LIMIT
    limit[kind > 1.0 - AT_LIMIT_ZERO] = 0
    return limit


def draw_bids(
    rng: np.random.Generator, wanted_macc: NDArray[np.float64], price_micro: int
) -> Column:
    """Draw bids, in µcr per hour, around the cost of what each team wants at a price."""
    cost = BID_LEVEL * wanted_macc * price_micro / MACC_PER_ACCELERATOR
    return (cost * rng.lognormal(0.0, BID_SIGMA, len(cost))).astype(np.int64) + 1


def moved_bids(rng: np.random.Generator, bids: Column) -> Column:
    """Return all bids, each a few percent up or down: what a settlement does to them."""
    return (bids * rng.uniform(0.95, 1.05, len(bids))).astype(np.int64) + 1


def without_limits_at_zero(market: MarketArrays) -> MarketArrays:
    """Return the market with its opportunistic jobs at one µcr, for rivals that know none."""
    return replace(market, limit_micro=np.maximum(market.limit_micro, 1))


def _wanted_at(
    team_of_job: NDArray[np.int32], size: Column, limit: Column, price: int, teams: int
) -> NDArray[np.float64]:
    wanted = np.zeros(teams)
    for first in range(0, len(size), CHUNK_JOBS):
        rows = slice(first, first + CHUNK_JOBS)
        counted = np.where(limit[rows] >= price, size[rows], 0)
        wanted += np.bincount(team_of_job[rows], weights=counted, minlength=teams)
    return wanted
