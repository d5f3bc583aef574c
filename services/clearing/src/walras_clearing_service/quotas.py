"""Quotas told to teams: what changed, what stands while a market is halted (design §3, §7)."""

from collections.abc import Mapping

from walras_clearing_service.cycle import MarketOutcome
from walras_clearing_service.model import CycleInput
from walras_clearing_service.state import QuotaEntry, TeamQuota
from walras_contracts.market import MarketQuota, MarketState, QuotaGranted

FRAME_EVERY = 60
"""Cycles between two in which every team is told its quota."""
NOTHING: tuple[QuotaEntry, ...] = ()


def team_quotas(
    cycle_input: CycleInput,
    outcomes: tuple[MarketOutcome, ...],
    pools: Mapping[str, str],
    before: Mapping[str, TeamQuota],
) -> dict[str, TeamQuota]:
    """Return the quota of every team that is known, by id.

    Parameters
    ----------
    pools
        Pool of every team with an account in effect.
    before
        What was told last. In a halted market no new quota is given: the last one stands, scaled
        down where the supply no longer holds it, so that running work survives (design §7).
    """
    entries: dict[str, list[QuotaEntry]] = {}
    for outcome in outcomes:
        if outcome.state is MarketState.HALTED:
            _carry(outcome, before, entries)
        elif outcome.result is not None:
            _grant(outcome, entries)
    pool_of = {team.team: team.pool for team in cycle_input.teams}
    found = {}
    for team in sorted({*pools, *pool_of, *before, *entries}):
        kept = before.get(team)
        pool = pool_of.get(team) or pools.get(team) or (kept.pool if kept else "")
        found[team] = TeamQuota(pool, tuple(entries.get(team, NOTHING)))
    return found


def is_told(now: TeamQuota, last: TeamQuota | None, cycle: int) -> bool:
    """Whether a team is told its quota in this cycle: on a change, and in every 60th cycle."""
    if cycle % FRAME_EVERY == 0:
        return True
    return now != last and not (last is None and not now.entries)


def granted(team: str, quota: TeamQuota, cycle: int, market_time_ms: int) -> QuotaGranted:
    """Return the event that tells a team its quota."""
    return QuotaGranted(
        team=team,
        pool=quota.pool,
        cycle=cycle,
        market_time_ms=market_time_ms,
        markets=tuple(
            MarketQuota(
                market=market,
                allocated_macc=allocated,
                opportunistic_macc=opportunistic,
                price_micro=price,
            )
            for market, allocated, opportunistic, price in quota.entries
        ),
    )


def _grant(outcome: MarketOutcome, entries: dict[str, list[QuotaEntry]]) -> None:
    assert outcome.result is not None
    result = outcome.result
    for bid in outcome.bids:
        got = result.teams[bid.team]
        price = result.pools[bid.pool].price_micro
        entry = (outcome.market.market, got.allocated_macc, got.opportunistic_macc, price)
        entries.setdefault(bid.team, []).append(entry)


def _carry(
    outcome: MarketOutcome,
    before: Mapping[str, TeamQuota],
    entries: dict[str, list[QuotaEntry]],
) -> None:
    """Let the last quotas of a halted market stand, within the supply that is left."""
    name = outcome.market.market
    kept = [
        (team, entry)
        for team in sorted(before)
        for entry in before[team].entries
        if entry[0] == name
    ]
    supply = outcome.market.total_macc
    told = sum(entry[1] + entry[2] for _, entry in kept)
    for team, (market, allocated, opportunistic, price) in kept:
        entry = (market, allocated, opportunistic, price)
        if told > supply:
            entry = (market, allocated * supply // told, opportunistic * supply // told, price)
        entries.setdefault(team, []).append(entry)
