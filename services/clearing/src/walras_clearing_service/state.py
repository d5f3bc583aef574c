"""State of the clearing service: tables of its inputs, and its own memory between cycles."""

import json
from dataclasses import dataclass
from typing import Any

from walras_clearing_service.book import AccountBook, Accounts, Means
from walras_clearing_service.model import (
    CycleInput,
    LastClearing,
    MarketInput,
    PoolInput,
    TeamInput,
)
from walras_clearing_service.queue import Queue
from walras_contracts.accounts import MarketDocument
from walras_contracts.capacity import SupplyPublished
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import StateChange

ASSIGNED = "assigned/"
UNPLACEABLE = "unplaceable/"
LAST = "market/"
QUOTA = "quota/"
SETTLEMENT = "settlement"

QuotaEntry = tuple[str, int, int, int | None]
"""Market, allocated macc, opportunistic macc, price in µcr per accelerator-hour."""


@dataclass(frozen=True, slots=True)
class TeamQuota:
    """The quota that a team was told last."""

    pool: str
    entries: tuple[QuotaEntry, ...]


class ClearingState:
    """All that the stage remembers.

    The tables (queue, supply, accounts, balances, budgets) are functions of the latest record of
    each key, so they can be folded again after compaction in any order of the topics. The rest
    (assignments, marks, last clearings, last quotas, settlement) lives on the own state topic.
    """

    def __init__(self) -> None:
        self.queue = Queue()
        self.accounts = AccountBook()
        self.supply: dict[str, SupplyPublished] = {}
        self.wallets_micro: dict[str, int] = {}
        self.exhausted: dict[str, bool] = {}
        self.last: dict[str, LastClearing] = {}
        self.quotas: dict[str, TeamQuota] = {}
        self.settlement_barrier = -1

    def load(self, key: str, value: bytes) -> None:
        """Take one record of the own state topic.

        Raises
        ------
        InvariantBrokenError
            The key is none of this stage's.
        """
        document = json.loads(value)
        if key.startswith(ASSIGNED):
            self.queue.assign(key[len(ASSIGNED) :], document)
        elif key.startswith(UNPLACEABLE):
            self.queue.mark_unplaceable(key[len(UNPLACEABLE) :], document)
        elif key.startswith(LAST):
            self.last[key[len(LAST) :]] = LastClearing(
                document["cycle"],
                document["reference"],
                document["pools"],
                document["unsold"],
                document["idle"],
            )
        elif key.startswith(QUOTA):
            entries = tuple((m, a, o, p) for m, a, o, p in document["entries"])
            self.quotas[key[len(QUOTA) :]] = TeamQuota(document["pool"], entries)
        elif key == SETTLEMENT:
            self.settlement_barrier = document
        else:
            raise InvariantBrokenError(f"state.clearing: unknown key {key!r}")

    def forget_left(self) -> list[StateChange]:
        """Forget jobs that left the queue."""
        changes = []
        for key, was_assigned, was_marked in self.queue.forget_left():
            if was_assigned:
                changes.append(StateChange(ASSIGNED + key, None))
            if was_marked:
                changes.append(StateChange(UNPLACEABLE + key, None))
        return changes

    def settle(self, barrier: int) -> list[StateChange]:
        """Remember the barrier of the balances in use."""
        self.settlement_barrier = barrier
        return [StateChange(SETTLEMENT, _json(barrier))]

    def assign(self, key: str, market: str) -> StateChange:
        """Remember the market of a job."""
        self.queue.assign(key, market)
        return StateChange(ASSIGNED + key, _json(market))

    def mark_unplaceable(self, key: str, since_cycle: int | None) -> StateChange:
        """Remember since when there is no place for a job."""
        self.queue.mark_unplaceable(key, since_cycle)
        value = None if since_cycle is None else _json(since_cycle)
        return StateChange(UNPLACEABLE + key, value)

    def remember_clearing(self, market: str, last: LastClearing | None) -> StateChange:
        """Remember how a market stood; None: it is gone."""
        if last is None:
            self.last.pop(market, None)
            return StateChange(LAST + market, None)
        self.last[market] = last
        return StateChange(
            LAST + market,
            _json(
                {
                    "cycle": last.cycle,
                    "reference": last.reference_price_micro,
                    "pools": dict(last.pool_prices_micro),
                    "unsold": last.unsold_macc,
                    "idle": dict(last.idle_own_macc),
                }
            ),
        )

    def remember_quota(self, team: str, quota: TeamQuota | None) -> StateChange:
        """Remember what a team was told; None: there is nothing to remember."""
        if quota is None:
            self.quotas.pop(team, None)
            return StateChange(QUOTA + team, None)
        self.quotas[team] = quota
        return StateChange(QUOTA + team, _json({"pool": quota.pool, "entries": quota.entries}))

    def freeze(
        self, cycle: int, barrier: int, market_time_ms: int, stopped: tuple[str, ...]
    ) -> CycleInput:
        """Return the input of a cycle as one frozen value."""
        accounts = self.accounts.in_effect(market_time_ms)
        teams = self._teams(accounts)
        markets = tuple(
            _market(self.supply[name], accounts.markets.get(name)) for name in sorted(self.supply)
        )
        return CycleInput(
            cycle=cycle,
            barrier=barrier,
            market_time_ms=market_time_ms,
            settlement_barrier=self.settlement_barrier,
            parameters=accounts.parameters,
            pools=_all_pools(accounts.pools, teams, markets),
            teams=teams,
            markets=markets,
            last={name: self.last[name] for name in sorted(self.last) if name in self.supply},
            stopped=stopped,
        )

    def known_teams(self, market_time_ms: int) -> dict[str, str]:
        """Return every team with an account in effect, and its pool."""
        means = self.accounts.in_effect(market_time_ms).means
        return {team: means[team].pool for team in means}

    def _teams(self, accounts: Accounts) -> tuple[TeamInput, ...]:
        teams = []
        for name, jobs, digest in self.queue.teams():
            means = accounts.means.get(name) or Means(self.queue.pool_of(name), 0, 0)
            teams.append(
                TeamInput(
                    team=name,
                    pool=means.pool,
                    income_micro_per_hour=means.income_micro_per_hour,
                    leverage_ppm=means.leverage_ppm,
                    wallet_micro=self.wallets_micro.get(name, 0),
                    exhausted=self.exhausted.get(name, False),
                    jobs=jobs,
                    jobs_digest=digest,
                )
            )
        return tuple(teams)


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
    )


def _all_pools(
    with_accounts: tuple[PoolInput, ...],
    teams: tuple[TeamInput, ...],
    markets: tuple[MarketInput, ...],
) -> tuple[PoolInput, ...]:
    """Add the pools that only own supply or demand names; they have no weight."""
    pools = {pool.pool: pool for pool in with_accounts}
    named = [team.pool for team in teams]
    named.extend(pool for market in markets for pool in market.own_macc)
    for pool in named:
        if pool not in pools:
            pools[pool] = PoolInput(pool, 0, 0, 0)
    return tuple(pools[name] for name in sorted(pools))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
