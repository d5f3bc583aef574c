"""State of the clearing service: columns of its inputs, and its own memory between cycles."""

import json
from dataclasses import astuple

from walras_clearing_service.account_book import AccountBook
from walras_clearing_service.input_digest import TeamColumns, cycle_digest
from walras_clearing_service.job_table import JobTable
from walras_clearing_service.model import (
    CycleInput,
    LastClearing,
    MarketInput,
    PoolInput,
    StuckHead,
)
from walras_clearing_service.names import Names
from walras_clearing_service.payloads import TeamQuota, kept_quota, state_change
from walras_clearing_service.team_table import TeamTable
from walras_contracts.accounts import MarketDocument, Rounding
from walras_contracts.capacity import SupplyPublished
from walras_contracts.identifiers import job_key
from walras_contracts.placing import PlacementMeasured
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import StateChange

ASSIGNED = "assigned/"
UNPLACEABLE = "unplaceable/"
LAST = "market/"
QUOTA = "quota/"
SETTLEMENT = "settlement"
PRICED = "priced/"
STUCK = "stuck/"


class ClearingState:
    """All that the stage remembers.

    The tables (queue, supply, accounts, balances, budgets) are functions of the latest record of
    each key, so they can be folded again after compaction in any order of the topics. The rest
    (assignments, marks, last clearings and their times, last quotas, stuck heads, settlement) lives
    on the own state topic.
    """

    def __init__(self) -> None:
        pools = Names()
        self.teams = TeamTable(pools)
        self.jobs = JobTable(Names(), self.teams.names, pools)
        self.accounts = AccountBook()
        self.supply: dict[str, SupplyPublished] = {}
        self.last: dict[str, LastClearing] = {}
        self.quotas: dict[str, TeamQuota] = {}
        self.stuck: dict[str, tuple[StuckHead, ...]] = {}
        self.settlement_barrier = -1
        self.priced_ms: dict[str, int] = {}
        """Market time of the last cycle of each market that had prices, or needed none."""

    def load(self, key: str, value: bytes) -> None:
        """Take one record of the own state topic.

        Raises
        ------
        InvariantBrokenError
            The key is none of this stage's.
        """
        kind, slash, name = key.partition("/")
        kind += slash
        if kind == ASSIGNED:
            self.jobs.assign(name, json.loads(value))
        elif kind == UNPLACEABLE:
            self.jobs.mark_no_place(name, json.loads(value))
        elif kind == LAST:
            document = json.loads(value)
            self.last[name] = LastClearing(
                document["cycle"],
                document["reference"],
                document["pools"],
                document["unsold"],
                document["idle"],
            )
        elif kind == QUOTA:
            self.quotas[name] = kept_quota(value)
        elif kind == STUCK:
            self.stuck[name] = tuple(StuckHead(*fields) for fields in json.loads(value))
        elif kind == PRICED:
            self.priced_ms[name] = json.loads(value)
        elif key == SETTLEMENT:
            self.settlement_barrier = json.loads(value)
        else:
            raise InvariantBrokenError(f"state.clearing: unknown key {key!r}")

    def forget_left(self) -> list[StateChange]:
        """Forget jobs that left the queue."""
        changes = []
        for key, was_assigned, was_marked in self.jobs.forget_left():
            if was_assigned:
                changes.append(StateChange(ASSIGNED + key, None))
            if was_marked:
                changes.append(StateChange(UNPLACEABLE + key, None))
        return changes

    def settle(self, barrier: int) -> list[StateChange]:
        """Remember the barrier of the balances in use."""
        self.settlement_barrier = barrier
        return [state_change(SETTLEMENT, barrier)]

    def take_stuck(self, figures: PlacementMeasured) -> StateChange | None:
        """Take the stuck heads of a market in place of those before; None: nothing changed."""
        market, now_ms = figures.market, figures.market_time_ms
        before = self.stuck.get(market, ())
        turns = {h.job: h.turn_since_ms for h in before if h.turn_since_ms is not None}
        heads = tuple(
            StuckHead(
                head.team,
                key := job_key(head.team, head.job),
                head.waited_cycles,
                head.pending_since_ms,
                turns.get(key, now_ms) if head.has_turn else None,
            )
            for head in figures.stuck
        )
        if heads == before:
            return None
        if not heads:
            del self.stuck[market]
            return StateChange(STUCK + market, None)
        self.stuck[market] = heads
        return state_change(STUCK + market, [list(astuple(head)) for head in heads])

    def remember_priced(self, market: str, at_ms: int | None) -> StateChange:
        """Remember when a market last had prices, or needed none; None: it is gone."""
        if at_ms is None:
            self.priced_ms.pop(market, None)
            return StateChange(PRICED + market, None)
        self.priced_ms[market] = at_ms
        return state_change(PRICED + market, at_ms)

    def assign(self, key: str, market: str) -> StateChange:
        """Remember the market of a job."""
        self.jobs.assign(key, market)
        return state_change(ASSIGNED + key, market)

    def mark_unplaceable(self, key: str, since_cycle: int | None) -> StateChange:
        """Remember since when there is no place for a job."""
        self.jobs.mark_no_place(key, since_cycle)
        if since_cycle is None:
            return StateChange(UNPLACEABLE + key, None)
        return state_change(UNPLACEABLE + key, since_cycle)

    def remember_clearing(self, market: str, last: LastClearing | None) -> StateChange:
        """Remember how a market stood; None: it is gone."""
        if last is None:
            self.last.pop(market, None)
            return StateChange(LAST + market, None)
        self.last[market] = last
        return state_change(
            LAST + market,
            {
                "cycle": last.cycle,
                "idle": dict(sorted(last.idle_own_macc.items())),
                "pools": dict(sorted(last.pool_prices_micro.items())),
                "reference": last.reference_price_micro,
                "unsold": last.unsold_macc,
            },
        )

    def remember_quota(self, team: str, quota: TeamQuota | None) -> None:
        """Remember what a team was told; None: there is nothing to remember."""
        if quota is None:
            self.quotas.pop(team, None)
        else:
            self.quotas[team] = quota

    def freeze(
        self, cycle: int, barrier: int, market_time_ms: int, stopped: tuple[str, ...]
    ) -> CycleInput:
        """Return the input of a cycle beside the columns, which are brought up to date."""
        accounts = self.accounts.in_effect(market_time_ms)
        self.jobs.refresh()
        self.teams.refresh(accounts, self.jobs)
        markets = tuple(
            _market(self.supply[name], accounts.markets.get(name)) for name in sorted(self.supply)
        )
        teams = self._teams()
        pools = _all_pools(accounts.pools, teams, markets)
        last = {name: self.last[name] for name in sorted(self.last) if name in self.supply}
        stuck = {
            market.market: self.stuck[market.market]
            for market in markets
            if market.rounding is Rounding.RELEASE and market.market in self.stuck
        }
        head = (cycle, barrier, market_time_ms, self.settlement_barrier)
        return CycleInput(
            *head,
            parameters=accounts.parameters,
            pools=pools,
            markets=markets,
            last=last,
            stuck=stuck,
            digest=cycle_digest(
                head,
                accounts.parameters,
                pools,
                markets,
                last,
                stuck=stuck,
                teams=teams,
                jobs=self.jobs.content,
            ),
            stopped=stopped,
        )

    def known_teams(self, market_time_ms: int) -> list[str]:
        """Return every team with an account in effect, with a job, or with a quota, by id."""
        means = self.accounts.in_effect(market_time_ms).means
        return sorted(dict.fromkeys((*means, *self.teams.names_with_jobs(), *self.quotas)))

    def _teams(self) -> TeamColumns:
        teams, rows = self.teams, self.teams.rows_with_jobs()
        pools = self.jobs.pools.names
        return TeamColumns(
            teams.names_with_jobs(),
            [pools[pool] for pool in teams.pool[rows].tolist()],
            teams.income_micro_per_hour[rows].tolist(),
            teams.leverage_ppm[rows].tolist(),
            teams.wallet_micro[rows].tolist(),
            teams.exhausted[rows].tolist(),
        )


def _market(supply: SupplyPublished, document: MarketDocument | None) -> MarketInput:
    # Without a document of its own a market takes the defaults, gate on (step protocol §2).
    policies = document or MarketDocument(market=supply.market)
    return MarketInput(
        market=supply.market,
        shared_macc=supply.shared_macc,
        own_macc={own.pool: own.macc for own in supply.own},
        gate=policies.gate,
        margin=policies.margin,
        idle_own_supply=policies.idle_own_supply,
        reserve_price_micro=policies.reserve_price_micro,
        rounding=policies.rounding,
    )


def _all_pools(
    with_accounts: tuple[PoolInput, ...], teams: TeamColumns, markets: tuple[MarketInput, ...]
) -> tuple[PoolInput, ...]:
    """Add the pools that only own supply or demand names; they have no weight."""
    pools = {pool.pool: pool for pool in with_accounts}
    named = list(dict.fromkeys(teams.pools))
    named.extend(pool for market in markets for pool in market.own_macc)
    for pool in named:
        if pool not in pools:
            pools[pool] = PoolInput(pool, 0, 0, 0)
    return tuple(pools[name] for name in sorted(pools))
