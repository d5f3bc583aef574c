"""Where a cold search for prices starts: a float estimate that the kernel never trusts.

Between two neighbouring breakpoints a pool's demand is A + B/p. Sorting the breakpoints once makes
every estimate a binary search (theory: Fisher market with budget-limited and saturated teams).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walras_clearing.pack import NO_LIMIT, Column, Columns

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curves:
    """Demand of each pool, piecewise: state j holds from `price[j]` up to `price[j + 1]`.

    `fixed` is A in macc, `spend` is B in µcr·1000 per hour, `switch` is the reference price up
    to which the pool price does not exceed `price[j]`; pool k owns `first[k]` to `first[k + 1]`.
    """

    price: Floats
    fixed: Floats
    spend: Floats
    switch: Floats
    first: Column


def curves(columns: Columns) -> Curves:
    """Breakpoints and states of the demand of each pool."""
    rows = np.diff(columns.first_row)
    team = np.repeat(np.arange(len(rows)), rows)
    pool_of_team = np.repeat(np.arange(len(columns.supply)), np.diff(columns.first_team))
    upper, wanted, budget = columns.limit, columns.wanted, columns.budget[team]
    lower = np.zeros_like(upper)
    if len(upper):
        lower[:-1] = np.where(team[1:] == team[:-1], upper[1:], 0)
    # Up to ⌊budget / wanted⌋ the row is limited by demand, beyond it by the budget.
    crossing = budget // np.maximum(wanted, 1) + 1
    crossing = np.minimum(np.maximum(crossing, lower), upper)
    keep = lower < upper
    pool = pool_of_team[team][keep]
    lower, crossing, upper = lower[keep], crossing[keep], upper[keep]
    wanted, budget = wanted[keep], budget[keep]
    none = np.zeros_like(wanted)
    one = np.ones_like(wanted)
    price = np.concatenate((lower, crossing, upper))
    pool3 = np.concatenate((pool, pool, pool))
    order = np.lexsort((price, pool3))
    price, pool3 = price[order], pool3[order]
    fixed = np.cumsum(np.concatenate((wanted, -wanted, none))[order])
    spend = np.cumsum(np.concatenate((none, budget, -budget))[order])
    limited = np.cumsum(np.concatenate((none, one, -one))[order])
    # Only the last of equal breakpoints has a meaning; +∞ closes a pool and says nothing.
    last = np.ones(len(price), dtype=bool)
    last[:-1] = (price[1:] != price[:-1]) | (pool3[1:] != pool3[:-1])
    last &= price != NO_LIMIT
    states = np.stack([part[last] for part in (price, fixed, spend, limited)])
    return _with_switches(columns, states.astype(np.float64), pool3[last])


def _with_switches(columns: Columns, states: Floats, pool: Column) -> Curves:
    price, fixed, spend, limited = states
    first = np.searchsorted(pool, np.arange(len(columns.supply) + 1)).astype(np.int64)
    # Each floor loses half a macc on average.
    bought = np.maximum(spend / np.maximum(price, 1.0) - limited / 2.0, 0.0)
    quantity = fixed + bought
    excess = quantity - columns.supply[pool]
    switch = np.full(len(price), np.inf)
    np.divide(quantity * price, excess, out=switch, where=excess > 0.5)
    return Curves(price, fixed, spend, switch, first)
