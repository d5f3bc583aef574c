"""Markets as integer columns, and columns as results: the layout the kernel works on.

Every column is a contiguous int64 array. Pools stand in id order; teams in (pool, id) order;
rows are the jobs that take part (funded team, limit not 0), by team, highest limit first.

===================  ======  ==============================================================
column               per     content
===================  ======  ==============================================================
``supply``           pool    own supply s, macc
``pool_order``       pool    pool indices, heaviest weight first, ties by id
``first_team``       pool+1  teams of pool k: ``first_team[k]`` to ``first_team[k + 1]``
``budget``           team    1000·b, so that ⌊budget / p⌋ is what p µcr buys, in macc
``opportunistic``    team    macc of jobs that take no part
``first_row``        team+1  rows of team i: ``first_row[i]`` to ``first_row[i + 1]``
``limit``            row     limit in µcr per accelerator-hour; `NO_LIMIT` for none
``wanted``           row     macc of the team's rows up to and including this one
===================  ======  ==============================================================
"""

from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walras_clearing.model import Certificate, ClearingResult, Market, PoolResult, TeamResult

Column = NDArray[np.int64]

NO_LIMIT: Final = 2**63 - 1
"""Stands for "any price": above every price that a market in range can reach."""

ABSENT: Final = -1
"""Stands for a price that does not exist."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A market in the layout of the module's table, with the ids to go back."""

    pool_ids: list[str]
    team_ids: list[str]
    shared: int
    reserve: int
    lends: bool
    strict: bool
    supply: Column
    pool_order: Column
    first_team: Column
    budget: Column
    opportunistic: Column
    first_row: Column
    limit: Column
    wanted: Column


@dataclass(frozen=True, slots=True)
class Cleared:
    """What the kernel returns: a price and one column per figure."""

    reference_price: int
    prices: Column
    prices_below: Column
    purchased: Column
    allocated: Column
    leftover: Column


def pack(market: Market) -> Columns:
    """Lay a valid market out in columns."""
    # Code points sort as their UTF-8 bytes do, so plain string order is id order.
    pools = sorted(market.pools, key=lambda pool: pool.pool)
    index = {pool.pool: k for k, pool in enumerate(pools)}
    teams = sorted(market.teams, key=lambda team: (index[team.pool], team.team))
    sizes: list[int] = []
    limits: list[int] = []
    rows: list[int] = []
    opportunistic: list[int] = []
    for team in teams:
        before = len(sizes)
        unserved = 0
        funded = team.bid_micro_per_hour > 0
        for job in team.jobs:
            limit = job.limit_micro
            if funded and limit != 0:
                sizes.append(job.size_macc)
                limits.append(NO_LIMIT if limit is None else limit)
            else:
                unserved += job.size_macc
        rows.append(len(sizes) - before)
        opportunistic.append(unserved)
    first_row = _starts(rows)
    limit_column, wanted = _sorted_rows(_column(sizes), _column(limits), first_row)
    per_pool = np.bincount(_column([index[team.pool] for team in teams]), minlength=len(pools))
    by_weight = sorted(range(len(pools)), key=lambda k: (-pools[k].weight, k))
    return Columns(
        pool_ids=[pool.pool for pool in pools],
        team_ids=[team.team for team in teams],
        shared=market.shared_supply_macc,
        reserve=market.reserve_price_micro,
        lends=market.idle_own_supply == "lend",
        strict=market.margin == "strict_order",
        supply=_column([pool.own_supply_macc for pool in pools]),
        pool_order=_column(by_weight),
        first_team=_starts(per_pool.tolist()),
        budget=_column([1000 * team.bid_micro_per_hour for team in teams]),
        opportunistic=_column(opportunistic),
        first_row=first_row,
        limit=limit_column,
        wanted=wanted,
    )


def unpack(columns: Columns, cleared: Cleared) -> ClearingResult:
    """Name the figures of the kernel again, in id order."""
    totals = _sums(cleared.allocated, columns.first_team)
    prices = cleared.prices.tolist()
    purchased = cleared.purchased.tolist()
    absent = cleared.reference_price == ABSENT
    price = 0 if absent else cleared.reference_price
    allocated = cleared.allocated.tolist()
    leftover = cleared.leftover.tolist()
    below = None
    if not absent and price > columns.reserve:
        below = dict(zip(columns.pool_ids, cleared.prices_below.tolist(), strict=True))
    return ClearingResult(
        reference_price_micro=None if absent else price,
        pools={
            pool: PoolResult(None if p == ABSENT else p, z, x)
            for pool, p, z, x in zip(columns.pool_ids, prices, purchased, totals, strict=True)
        },
        teams={
            columns.team_ids[i]: TeamResult(allocated[i], leftover[i])
            for i in sorted(range(len(allocated)), key=columns.team_ids.__getitem__)
        },
        certificate=Certificate(below),
        surplus_nano_per_hour={
            pool: max(p, 0) * x - price * z
            for pool, p, z, x in zip(columns.pool_ids, prices, purchased, totals, strict=True)
        },
    )


def _column(values: list[int]) -> Column:
    return np.array(values, dtype=np.int64)


def _starts(counts: list[int]) -> Column:
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(_column(counts), out=starts[1:])
    return starts


def _sorted_rows(size: Column, limit: Column, first_row: Column) -> tuple[Column, Column]:
    """Rows by team and falling limit, and what each team wants down to each row."""
    team = np.repeat(np.arange(len(first_row) - 1), np.diff(first_row))
    order = np.lexsort((-limit, team))
    running = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(size[order])))
    wanted = running[1:] - running[first_row[team]]
    return np.ascontiguousarray(limit[order]), np.ascontiguousarray(wanted)


def _sums(values: Column, starts: Column) -> list[int]:
    running = list(chain((0,), np.cumsum(values).tolist()))
    edges = starts.tolist()
    return [running[after] - running[at] for at, after in pairwise(edges)]
