"""The market that a cycle cleared, from its record and its folded frames."""

from dataclasses import dataclass
from typing import cast

import numpy as np

from walras.archive.recorded_cycle import BrokenCycleError
from walras_clearing.arrays import NO_LIMIT, MarketArrays
from walras_clearing.model import IdleOwnSupply, Margin
from walras_contracts.cycle_frames import FoldedMarket
from walras_contracts.market import CycleRecorded


@dataclass(frozen=True, slots=True, eq=False)
class RebuiltMarket:
    """A market in columns, with the ids of its rows: pools and teams in id order."""

    pools: tuple[str, ...]
    teams: tuple[str, ...]
    arrays: MarketArrays


def rebuilt(head: CycleRecorded, fold: FoldedMarket) -> RebuiltMarket:
    """Return the market as it was cleared.

    Parameters
    ----------
    head
        The record of the cycle: supplies and policies.
    fold
        Teams with their bids and jobs, folded up to the cycle.

    Raises
    ------
    BrokenCycleError
        Record and frames contradict each other.
    """
    for name, held, recorded in (
        ("jobs", len(fold.jobs), head.jobs),
        ("teams", len(fold.teams), head.teams),
    ):
        if held != recorded:
            reason = f"its frames hold {held} {name}, the record says {recorded}"
            raise BrokenCycleError(head.market, head.cycle, reason)
    pool_number = {pool.pool: number for number, pool in enumerate(head.pools)}
    # Ids are ASCII: the order of strings is the order of their bytes.
    teams = tuple(sorted(fold.teams))
    team_number = {team: number for number, team in enumerate(teams)}
    rows = [fold.teams[team] for team in teams]
    try:
        pool_of_team = [pool_number[row.pool] for row in rows]
        team_of_job = [team_number[key.partition("/")[0]] for key in fold.jobs]
    except KeyError as error:
        reason = f"its frames name {error}, which is no pool or team of it"
        raise BrokenCycleError(head.market, head.cycle, reason) from error
    jobs = fold.jobs.values()
    limits = [NO_LIMIT if job.limit_micro is None else job.limit_micro for job in jobs]
    arrays = MarketArrays(
        shared_supply_macc=head.shared_supply_macc,
        own_supply_macc=np.array([pool.own_supply_macc for pool in head.pools], np.int64),
        pool_weight=np.array([pool.weight_micro_per_hour for pool in head.pools], np.int64),
        pool_of_team=np.array(pool_of_team, np.int32),
        bid_micro_per_hour=np.array([row.bid_micro_per_hour for row in rows], np.int64),
        team_of_job=np.array(team_of_job, np.int32),
        size_macc=np.array([job.size_macc for job in jobs], np.int64),
        limit_micro=np.array(limits, np.int64),
        reserve_price_micro=head.reserve_price_micro,
        # Free text in the contract; the library refuses what it does not know.
        idle_own_supply=cast("IdleOwnSupply", head.idle_own_supply),
        margin=cast("Margin", head.margin),
    )
    return RebuiltMarket(tuple(pool_number), teams, arrays)
