"""CVXPY with Clarabel on a single-level market: the independent oracle, and a peer in speed.

One pool without own supply. With the jobs of a team by falling limit, its next accelerator is worth
min(limit, b / x) to it, x being what it has. Summed up, that is a concave function: pieces of
constant worth where the limit is the smaller of the two, pieces ``b·log(1 + y / start)`` where the
budget is. The market price is the multiplier of the supply. Units are accelerators and credits, so
that the numbers lie near one.
"""

from dataclasses import dataclass
from importlib import import_module
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from libs.clearing.benchmarks.instances import MACC_PER_ACCELERATOR
from walras_clearing.arrays import NO_LIMIT, MarketArrays

# Its types change from version to version.
cvxpy: Any = import_module("cvxpy")

MICRO: Final = 1_000_000
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of all teams' worth, in accelerators and credits per accelerator-hour.

    Constant pieces have a `worth` and a length; logarithmic ones a `budget` in credits per hour,
    the quantity at which they `start`, and a length.
    """

    worth: Floats
    worth_length: Floats
    budget: Floats
    start: Floats
    budget_length: Floats


@dataclass(frozen=True, slots=True)
class ConicPrice:
    """What the solver says: a price in µcr, its status, its own time and that of the whole call."""

    price_micro: float
    status: str
    solver_ms: float
    total_ms: float


def pieces_of(market: MarketArrays, *, merged: bool) -> Pieces:
    """Cut the teams' worth into pieces: one or two a job, or `merged` where they touch on a curve.

    Raises
    ------
    ValueError
        The market has several pools or own supply: it is not single-level.
    """
    if len(market.own_supply_macc) != 1 or int(market.own_supply_macc[0]) != 0:
        raise ValueError("a single-level market has one pool without own supply")
    bids = market.bid_micro_per_hour
    part = (bids[market.team_of_job] > 0) & (market.limit_micro > 0) & (market.size_macc > 0)
    order = np.flatnonzero(part)
    order = order[np.lexsort((-market.limit_micro[order], market.team_of_job[order]))]
    team, limit = market.team_of_job[order], market.limit_micro[order]
    size: Floats = market.size_macc[order] / MACC_PER_ACCELERATOR
    running = np.cumsum(size)
    first = np.searchsorted(team, team)
    upper = running - (running[first] - size[first])
    lower = np.maximum(upper - size, 0.0)
    budget = bids[team] / MICRO
    # Up to the crossing the limit is what counts, beyond it the budget. No price in reach is as
    # high as the cap, so a piece worth more is bought all the same.
    cap = 4.0 * _highest_price(market)
    worth = np.where(limit == NO_LIMIT, cap, np.minimum(limit / MICRO, cap))
    crossing = np.clip(budget / worth, lower, upper)
    flat, curved = crossing > lower, upper > crossing
    start, end, owner = crossing[curved], upper[curved], team[curved]
    opens = np.ones(len(start), dtype=bool)
    if merged:
        opens[1:] = (owner[1:] != owner[:-1]) | (start[1:] > end[:-1])
    closes = np.append(opens[1:], True)
    return Pieces(
        worth=worth[flat],
        worth_length=(crossing - lower)[flat],
        budget=budget[curved][opens],
        start=start[opens],
        budget_length=end[closes] - start[opens],
    )


def solve(market: MarketArrays, *, tolerance: float, merged: bool) -> ConicPrice:
    """Price a single-level market; cutting it into pieces is not timed, all of CVXPY is."""
    pieces = pieces_of(market, merged=merged)
    supply = market.shared_supply_macc / MACC_PER_ACCELERATOR
    began = perf_counter()
    flat = cvxpy.Variable(len(pieces.worth), nonneg=True)
    curved = cvxpy.Variable(len(pieces.budget), nonneg=True)
    gain = pieces.worth @ flat + pieces.budget @ cvxpy.log1p(
        cvxpy.multiply(1.0 / pieces.start, curved)
    )
    within = cvxpy.sum(flat) + cvxpy.sum(curved) <= supply
    problem = cvxpy.Problem(
        cvxpy.Maximize(gain),
        [within, flat <= pieces.worth_length, curved <= pieces.budget_length],
    )
    problem.solve(
        solver=cvxpy.CLARABEL,
        tol_gap_abs=tolerance,
        tol_gap_rel=tolerance,
        tol_feas=tolerance,
        max_threads=1,
    )
    total_s = perf_counter() - began
    return ConicPrice(
        price_micro=float(within.dual_value) * MICRO,
        status=str(problem.status),
        solver_ms=float(problem.solver_stats.solve_time) * 1e3,
        total_ms=total_s * 1e3,
    )


def _highest_price(market: MarketArrays) -> float:
    """All money over all supply, in credits: no market price can be higher."""
    money = float(market.bid_micro_per_hour.sum()) / MICRO
    return max(money / (market.shared_supply_macc / MACC_PER_ACCELERATOR), 1e-6)
