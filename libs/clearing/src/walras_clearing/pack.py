"""Markets by name as columns, and results in columns by name again."""

from dataclasses import dataclass

import numpy as np

from walras_clearing.arrays import ABSENT, NO_LIMIT, ClearedArrays, Column, MarketArrays, Numbers
from walras_clearing.model import Certificate, ClearingResult, Market, PoolResult, TeamResult


@dataclass(frozen=True, slots=True)
class Packed:
    """A market in columns, pools and teams in id order, with the ids to go back."""

    pool_ids: list[str]
    team_ids: list[str]
    arrays: MarketArrays


def pack(market: Market) -> Packed:
    """Lay a valid market out in columns."""
    # Code points sort as their UTF-8 bytes do, so plain string order is id order.
    pools = sorted(market.pools, key=lambda pool: pool.pool)
    index = {pool.pool: k for k, pool in enumerate(pools)}
    teams = sorted(market.teams, key=lambda team: team.team)
    jobs = [job for team in teams for job in team.jobs]
    counts = _numbers([len(team.jobs) for team in teams])
    arrays = MarketArrays(
        shared_supply_macc=market.shared_supply_macc,
        own_supply_macc=_column([pool.own_supply_macc for pool in pools]),
        pool_weight=_column([pool.weight for pool in pools]),
        pool_of_team=_numbers([index[team.pool] for team in teams]),
        bid_micro_per_hour=_column([team.bid_micro_per_hour for team in teams]),
        team_of_job=np.repeat(np.arange(len(teams), dtype=np.int32), counts),
        size_macc=_column([job.size_macc for job in jobs]),
        limit_micro=_column(
            [NO_LIMIT if job.limit_micro is None else job.limit_micro for job in jobs]
        ),
        reserve_price_micro=market.reserve_price_micro,
        idle_own_supply=market.idle_own_supply,
        margin=market.margin,
    )
    return Packed([pool.pool for pool in pools], [team.team for team in teams], arrays)


def unpack(packed: Packed, result: ClearedArrays) -> ClearingResult:
    """Name the figures again, in id order."""
    below = None
    if result.price_below_micro is not None:
        below = dict(zip(packed.pool_ids, result.price_below_micro.tolist(), strict=True))
    figures = zip(
        result.price_micro.tolist(),
        result.purchased_macc.tolist(),
        result.pool_allocated_macc.tolist(),
        strict=True,
    )
    teams = zip(result.allocated_macc.tolist(), result.opportunistic_macc.tolist(), strict=True)
    return ClearingResult(
        reference_price_micro=result.reference_price_micro,
        pools={
            pool: PoolResult(None if p == ABSENT else p, z, x)
            for pool, (p, z, x) in zip(packed.pool_ids, figures, strict=True)
        },
        teams={
            team: TeamResult(x, idle)
            for team, (x, idle) in zip(packed.team_ids, teams, strict=True)
        },
        certificate=Certificate(below),
        surplus_nano_per_hour=dict(
            zip(packed.pool_ids, result.surplus_nano_per_hour(), strict=True)
        ),
    )


def _column(values: list[int]) -> Column:
    return np.array(values, dtype=np.int64)


def _numbers(values: list[int]) -> Numbers:
    return np.array(values, dtype=np.int32)
