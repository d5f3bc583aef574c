"""Accounts in effect: which version of each document counts at a market time (step protocol §4)."""

from dataclasses import dataclass
from typing import TypeVar

from walras_clearing_service.model import BidderParameters, PoolInput
from walras_contracts.accounts import (
    AccountsChanged,
    MarketDocument,
    PlatformDocument,
    PoolDocument,
)

D = TypeVar("D")
FAR_MS = 2**62
"""Later than every market time."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a team has by its account: pool, income at the rate in force, leverage."""

    pool: str
    income_micro_per_hour: int
    leverage_ppm: int


@dataclass(frozen=True, slots=True)
class Accounts:
    """The documents in effect at one market time."""

    pools: tuple[PoolInput, ...]
    means: dict[str, Means]
    markets: dict[str, MarketDocument]
    parameters: BidderParameters


class AccountBook:
    """All versions that still count or will count, by entity."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, AccountsChanged]] = {}
        self._cached: Accounts | None = None
        self._valid_until_ms = 0
        self._made_for_ms = 0

    def put(self, change: AccountsChanged) -> None:
        """Take a version of a document; an equal version number replaces it."""
        self._versions.setdefault(change.document.entity(), {})[change.version] = change
        self._cached = None

    def in_effect(self, market_time_ms: int) -> Accounts:
        """Return the documents in effect; market time never runs backwards between calls."""
        cached = self._cached
        if cached is not None and self._made_for_ms <= market_time_ms < self._valid_until_ms:
            return cached
        documents: dict[str, AccountsChanged] = {}
        next_ms = FAR_MS
        for entity, versions in self._versions.items():
            counting = [v for v, c in versions.items() if c.effective_ms <= market_time_ms]
            waiting = [c.effective_ms for c in versions.values() if c.effective_ms > market_time_ms]
            next_ms = min([next_ms, *waiting])
            if counting:
                newest = max(counting)
                documents[entity] = versions[newest]
                for superseded in counting:
                    if superseded != newest:
                        del versions[superseded]
        accounts = _accounts(documents)
        self._cached, self._made_for_ms, self._valid_until_ms = accounts, market_time_ms, next_ms
        return accounts


def income_micro_per_hour(weight: int, local: int, local_sum: int) -> int:
    """Income of a team, µcr per hour: ⌊W·local/C⌋; 0 where the pool has no incomes."""
    return weight * local // local_sum if local_sum else 0


def _accounts(changes: dict[str, AccountsChanged]) -> Accounts:
    pools: list[PoolInput] = []
    means: dict[str, Means] = {}
    markets: dict[str, MarketDocument] = {}
    platform = PlatformDocument()
    for entity in sorted(changes):
        document = changes[entity].document
        if isinstance(document, PoolDocument):
            pools.append(_pool(document, means))
        elif isinstance(document, MarketDocument):
            markets[document.market] = document
        else:
            platform = document
    return Accounts(tuple(pools), means, markets, _parameters(platform))


def _pool(document: PoolDocument, means: dict[str, Means]) -> PoolInput:
    total = sum(team.income_local_per_hour for team in document.teams)
    weight = document.weight_micro_per_hour
    for team in document.teams:
        income = income_micro_per_hour(weight, team.income_local_per_hour, total)
        # Intake refuses a team in two pools; should it happen, the first pool in id order counts.
        means.setdefault(team.team, Means(document.pool, income, team.leverage_ppm))
    return PoolInput(document.pool, weight, total, document.leverage_ppm)


def _parameters(platform: PlatformDocument) -> BidderParameters:
    return BidderParameters(
        minimum_affordable_minutes=platform.minimum_affordable_minutes,
        move_gap_ppm=platform.move_gap_ppm,
        move_share_ppm=platform.move_share_ppm,
        retention_gap_ppm=platform.retention_gap_ppm,
        unplaceable_after_cycles=platform.unplaceable_after_cycles,
    )
