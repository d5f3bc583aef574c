"""The content of a snapshot: a pure function of what lies before a barrier.

Epoch and time of publication are not part of it: two runs over one log give the same bytes.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from walras_contracts.accounts import PoolDocument
from walras_contracts.capacity import SupplyPublished
from walras_contracts.market import QuotaGranted
from walras_runtime.records import Barrier
from walras_snapshot.state import SnapshotState

FORMAT: Final = 1


def shares_by_income(own_macc: int, incomes: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Split a pool's own supply over its teams.

    Parameters
    ----------
    own_macc
        What the pool owns, in milli-accelerators.
    incomes
        Teams with their income in local credits per hour.

    Returns
    -------
    dict
        macc per team: ``own * income // total``, and one of the rest each, in id order, to teams
        with a remainder. All of it where any income is positive, nothing where none is.
    """
    total = sum(income for _, income in incomes)
    if total == 0:
        return {team: 0 for team, _ in sorted(incomes)}
    shares = {team: own_macc * income // total for team, income in sorted(incomes)}
    left = own_macc - sum(shares.values())
    for team, income in sorted(incomes):
        if left == 0:
            break
        if own_macc * income % total:
            shares[team] += 1
            left -= 1
    return shares


def contracted_floor(
    supplies: Mapping[str, SupplyPublished], pools: Sequence[PoolDocument]
) -> dict[str, dict[str, int]]:
    """Return what each team may use without a market: its share of its pool's own supply.

    Returns
    -------
    dict
        macc per team and market; markets in which the pool owns nothing are left out.
    """
    floor: dict[str, dict[str, int]] = {}
    for pool in pools:
        incomes = [(team.team, team.income_local_per_hour) for team in pool.teams]
        for team, _ in incomes:
            floor.setdefault(team, {})
        for market in sorted(supplies):
            own = [item.macc for item in supplies[market].own if item.pool == pool.pool]
            for team, macc in shares_by_income(sum(own), incomes).items():
                if macc > 0:
                    floor[team][market] = macc
    return floor


def cycle_of(barrier: int, barriers_per_cycle: int) -> int:
    """Return the last cycle that was due at a barrier."""
    return barrier // barriers_per_cycle


def body(state: SnapshotState, barrier: Barrier, barriers_per_cycle: int) -> bytes:
    """Return the snapshot at a barrier as canonical JSON (sorted keys, no spaces, ASCII)."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "barrier": barrier.number,
        "cycle": cycle_of(barrier.number, barriers_per_cycle),
        "market_time_ms": barrier.market_time_ms,
        "quotas": {team: _quota(quota) for team, quota in state.quotas.items()},
        "supply": {market: _supply(supply) for market, supply in state.supplies.items()},
        "floor": contracted_floor(state.supplies, state.pools_at(barrier.market_time_ms)),
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _quota(quota: QuotaGranted) -> dict[str, Any]:
    return {
        "pool": quota.pool,
        "cycle": quota.cycle,
        "markets": {
            part.market: {
                "allocated_macc": part.allocated_macc,
                "opportunistic_macc": part.opportunistic_macc,
                "price_micro": part.price_micro,
            }
            for part in quota.markets
        },
    }


def _supply(supply: SupplyPublished) -> dict[str, Any]:
    return {
        "shared_macc": supply.shared_macc,
        "own": {item.pool: item.macc for item in supply.own},
        "withheld_macc": supply.withheld_macc,
    }
