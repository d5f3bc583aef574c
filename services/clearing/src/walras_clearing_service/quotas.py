"""Quotas told to teams: what changed, what stands while a market is halted (design §3, §7)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from walras_clearing.arrays import ABSENT
from walras_clearing_service.cycle import Cleared, CycleDecision, MarketOutcome
from walras_clearing_service.model import LastClearing
from walras_clearing_service.names import NONE
from walras_clearing_service.payloads import QuotaEntry, TeamQuota
from walras_clearing_service.team_table import TeamTable
from walras_contracts.market import MarketState

TELL_ALL_EVERY: Final = 60
"""Cycles between two in which every team is told its quota."""
NOTHING: Final[tuple[QuotaEntry, ...]] = ()
Entries = dict[str, list[QuotaEntry]]


def is_told_to_all(cycle: int, last: Mapping[str, LastClearing]) -> bool:
    """Whether every team is told its quota: in every 60th cycle, or in the next if it was skipped.

    Parameters
    ----------
    last
        How the markets stood when they were last cleared, before this cycle.
    """
    decided = max((clearing.cycle for clearing in last.values()), default=cycle)
    return cycle % TELL_ALL_EVERY == 0 or decided // TELL_ALL_EVERY < cycle // TELL_ALL_EVERY


def team_quotas(
    decision: CycleDecision,
    teams: TeamTable,
    pool_names: list[str],
    known: Iterable[str],
    before: Mapping[str, TeamQuota],
) -> Iterator[tuple[str, TeamQuota]]:
    """Yield the quota of every team that is known, in the order of ``known``.

    Parameters
    ----------
    pool_names
        Names of the pools by number.
    before
        What was told last. In a halted market no new quota is given: the last one stands, scaled
        down where the supply no longer holds it, so that running work survives (design §7).
    """
    entries: Entries = {}
    pool_index = decision.plan.pool_index.tolist()
    for outcome in decision.outcomes:
        if outcome.state is MarketState.HALTED:
            _carry(outcome, before, entries)
        elif outcome.cleared is not None:
            _grant(outcome.market.market, outcome.cleared, teams, pool_index, entries)
    # The last name stands for "no pool", which has the number -1.
    pools = [*pool_names, ""]
    pool_of = dict(zip(teams.names.names, teams.pool.tolist(), strict=True))
    for team in known:
        pool = pools[pool_of.get(team, NONE)]
        if not pool and team in before:
            pool = before[team].pool
        mine = entries.get(team)
        yield team, TeamQuota(pool, NOTHING if mine is None else tuple(mine))


def _grant(
    market: str, cleared: Cleared, teams: TeamTable, pool_index: list[int], entries: Entries
) -> None:
    prices = [None if p == ABSENT else p for p in cleared.result.price_micro.tolist()]
    rows = cleared.offer.takes_part.nonzero()[0]
    allocated = cleared.result.allocated_macc[rows].tolist()
    opportunistic = cleared.result.opportunistic_macc[rows].tolist()
    names = teams.names.names
    for row, bought, left in zip(rows.tolist(), allocated, opportunistic, strict=True):
        entry = QuotaEntry(market, bought, left, prices[pool_index[row]])
        entries.setdefault(names[row], []).append(entry)


def _carry(outcome: MarketOutcome, before: Mapping[str, TeamQuota], entries: Entries) -> None:
    """Let the last quotas of a halted market stand, within the supply that is left."""
    name = outcome.market.market
    kept = [
        (team, entry)
        for team in sorted(before)
        for entry in before[team].markets
        if entry.market == name
    ]
    supply = outcome.market.total_macc
    told = sum(entry.allocated_macc + entry.opportunistic_macc for _, entry in kept)
    for team, entry in kept:
        bought, left = entry.allocated_macc, entry.opportunistic_macc
        if told > supply:
            bought, left = bought * supply // told, left * supply // told
        entries.setdefault(team, []).append(QuotaEntry(name, bought, left, entry.price_micro))
