"""Markets in columns for tests: drawn, named, shuffled; and results compared."""

import hashlib
from dataclasses import fields, replace
from typing import Literal

import numpy as np

from walras_clearing.arrays import NO_LIMIT, ClearedArrays, Column, MarketArrays
from walras_clearing.model import Job, Market, Pool, Team

Limits = Literal["spread", "few", "equal", "none"]
"""Limits of `draw_columns`: over twelve decades, eight values, one value, or no limit at all."""


def draw_columns(
    seed: int,
    *,
    pools: int = 5,
    teams: int = 60,
    jobs: int = 12_000,
    limits: Limits = "spread",
    bid_bits: int = 30,
) -> MarketArrays:
    """Draw a market in columns: large enough for samples and windows, teams of unequal size.

    Parameters
    ----------
    seed
        Decides everything else.
    pools, teams, jobs
        How many; a third of the pools owns nothing, a tenth of the teams bids nothing.
    limits
        How the limits lie.
    bid_bits
        The largest bid has so many bits: it moves the prices.
    """
    rng = np.random.default_rng(seed)
    size = 1000 << rng.integers(0, 6, jobs)
    # Teams with low numbers have most of the jobs; the others a few.
    team_of_job = np.minimum(rng.integers(0, teams, jobs), rng.integers(0, teams, jobs))
    limit = _drawn_limits(rng, jobs, limits)
    limit[rng.integers(0, 16, jobs) == 0] = 0
    wanted = int(size.sum())
    own = rng.integers(1, wanted // (3 * pools) + 2, pools)
    own[rng.integers(0, 3, pools) == 0] = 0
    bid = 1 + (rng.integers(0, 1 << 40, teams) >> (40 - bid_bits))
    bid[rng.integers(0, 10, teams) == 0] = 0
    return MarketArrays(
        shared_supply_macc=int(rng.integers(1, wanted // 3 + 2)),
        own_supply_macc=own,
        pool_weight=rng.integers(0, 4, pools),
        pool_of_team=rng.integers(0, pools, teams).astype(np.int32),
        bid_micro_per_hour=bid,
        team_of_job=team_of_job.astype(np.int32),
        size_macc=size,
        limit_micro=limit,
        reserve_price_micro=int(rng.integers(1, 1000)) if rng.integers(0, 4) == 0 else 0,
        idle_own_supply="lend" if rng.integers(0, 2) else "keep",
        margin="strict_order" if rng.integers(0, 3) == 0 else "pro_rata",
    )


def _drawn_limits(rng: np.random.Generator, jobs: int, limits: Limits) -> Column:
    if limits == "equal":
        return np.full(jobs, 40_000, np.int64)
    if limits == "none":
        return np.full(jobs, NO_LIMIT, np.int64)
    spread = 1 + (rng.integers(0, 10**12, jobs) >> rng.integers(0, 40, jobs))
    if limits == "few":
        return rng.choice(spread[:8], jobs)
    spread[rng.integers(0, 8, jobs) == 0] = NO_LIMIT
    return spread


def named(arrays: MarketArrays) -> Market:
    """Name the pools, teams and jobs of a market in columns; jobs keep their order."""
    pools = [f"p{k:03}" for k in range(len(arrays.own_supply_macc))]
    queues: list[list[Job]] = [[] for _ in range(len(arrays.pool_of_team))]
    rows = zip(
        arrays.team_of_job.tolist(),
        arrays.size_macc.tolist(),
        arrays.limit_micro.tolist(),
        strict=True,
    )
    for number, (team, size, limit) in enumerate(rows):
        queues[team].append(Job(f"j{number}", size, None if limit == NO_LIMIT else limit))
    order = range(len(queues)) if arrays.team_order is None else arrays.team_order.tolist()
    rank = {team: place for place, team in enumerate(order)}
    teams = zip(arrays.pool_of_team.tolist(), arrays.bid_micro_per_hour.tolist(), strict=True)
    supplies = zip(arrays.own_supply_macc.tolist(), arrays.pool_weight.tolist(), strict=True)
    return Market(
        shared_supply_macc=arrays.shared_supply_macc,
        pools=tuple(
            Pool(name, own, weight) for name, (own, weight) in zip(pools, supplies, strict=True)
        ),
        teams=tuple(
            Team(f"t{rank[i]:05}", pools[pool], bid, tuple(queues[i]))
            for i, (pool, bid) in enumerate(teams)
        ),
        reserve_price_micro=arrays.reserve_price_micro,
        idle_own_supply=arrays.idle_own_supply,
        margin=arrays.margin,
    )


def differences(one: ClearedArrays, other: ClearedArrays) -> list[str]:
    """Name the fields in which two results differ, kinds and lengths of columns included."""
    found = []
    for name in (field.name for field in fields(ClearedArrays)):
        ours, theirs = getattr(one, name), getattr(other, name)
        if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
            same = ours.dtype == theirs.dtype and np.array_equal(ours, theirs)
        else:
            same = type(ours) is type(theirs) and ours == theirs
        if not same:
            found.append(f"{name}: {ours} is not {theirs}")
    return found


def fingerprint(result: ClearedArrays) -> str:
    """Return one hash of all figures of a result."""
    body = hashlib.sha256()
    for field in fields(ClearedArrays):
        value = getattr(result, field.name)
        body.update(value.tobytes() if isinstance(value, np.ndarray) else str(value).encode())
        body.update(b"\0")
    return body.hexdigest()


def shuffled(arrays: MarketArrays, seed: int) -> tuple[MarketArrays, Column]:
    """Return the same market with jobs in another order and teams by other numbers.

    The second value has the new number of every team.
    """
    rng = np.random.default_rng(seed)
    number = rng.permutation(len(arrays.pool_of_team))
    old = np.argsort(number)
    jobs = rng.permutation(len(arrays.team_of_job))
    order = np.arange(len(number)) if arrays.team_order is None else arrays.team_order
    return (
        replace(
            arrays,
            pool_of_team=arrays.pool_of_team[old],
            bid_micro_per_hour=arrays.bid_micro_per_hour[old],
            team_of_job=number[arrays.team_of_job[jobs]].astype(np.int32),
            size_macc=arrays.size_macc[jobs],
            limit_micro=arrays.limit_micro[jobs],
            team_order=number[order].astype(np.int32),
        ),
        number,
    )
