"""Accounts over time: the versions of each document, and from when each counts."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from walras_billing.running_totals import Amount, lowest_terms, plus
from walras_contracts.accounts import (
    AccountsChanged,
    MarketDocument,
    PlatformDocument,
    PoolDocument,
    TeamBudget,
)

HOUR_MS: Final = 3_600_000
POOL: Final = "pool/"
"""Before the name of a pool: the key of its documents."""
PLATFORM: Final = PlatformDocument().entity()
ALWAYS_MS: Final = -(2**62)
NEVER_MS: Final = 2**62


Incomes = Mapping[str, Amount]
"""What was earned by team, exactly."""


@dataclass(frozen=True, slots=True)
class Member:
    """What a team is by one document of its pool: its income is W · local / C per hour."""

    pool: str
    zone: str
    weight_micro_per_hour: int
    local: int
    local_sum: int
    budgets: tuple[TeamBudget, ...]

    def income(self, span_ms: int) -> Amount:
        """Return what it earns in a time, exactly and in lowest terms."""
        share = self.weight_micro_per_hour * self.local
        return lowest_terms(share * span_ms, self.local_sum * HOUR_MS) if share else (0, 1)

    def most_micro(self, hours: int) -> int | None:
        """Return what so many hours of its income are, in whole µcr; None without income."""
        share = self.weight_micro_per_hour * self.local
        return share * hours // self.local_sum if share else None


@dataclass(frozen=True, slots=True)
class _Version:
    """One version of a document; of a pool's, the teams of this partition."""

    effective_ms: int
    number: int
    members: Mapping[str, Member]
    max_balance_hours: int
    _incomes: dict[int, Incomes] = field(default_factory=dict, compare=False, repr=False)
    """By length of time; settlements ask for the same one again and again."""

    def incomes(self, span_ms: int) -> Incomes:
        """Return what each team earns in a time; the same object for the same time."""
        found = self._incomes.get(span_ms)
        if found is None:
            by_local: dict[int, Amount] = {}
            earned: dict[str, Amount] = {}
            for team, member in self.members.items():
                amount = by_local.get(member.local)
                if amount is None:
                    amount = by_local[member.local] = member.income(span_ms)
                earned[team] = amount
            self._incomes.clear()
            found = self._incomes[span_ms] = earned
        return found


class AccountBook:
    """All versions of all documents; folding a record again changes nothing.

    Parameters
    ----------
    mine
        Whether a team belongs to this partition; the others are not kept.
    """

    def __init__(self, mine: Callable[[str], bool] = lambda _team: True) -> None:
        self.is_mine = mine
        self._versions: dict[str, list[_Version]] = {}
        self._members: Mapping[str, Member] = {}
        self._valid_ms = (0, 0)
        """The interval in which ``_members`` is true."""

    def put(self, change: AccountsChanged) -> None:
        """Take a version of a document; those of markets do not matter here."""
        document = change.document
        if isinstance(document, MarketDocument):
            return
        members = self._own(document) if isinstance(document, PoolDocument) else {}
        hours = document.max_balance_hours if isinstance(document, PlatformDocument) else 0
        held = self._versions.setdefault(document.entity(), [])
        held[:] = [v for v in held if v.number != change.version]
        held.append(_Version(change.effective_ms, change.version, members, hours))
        held.sort(key=_by_effect)
        self._valid_ms = (0, 0)

    def incomes(self, start_ms: int, end_ms: int) -> Mapping[str, Incomes]:
        """Return what is earned in [start, end), by pool.

        A team earns while a document of its pool counts, also where that is 0. Of a pool whose
        documents do not change, the same object is returned for equal times.
        """
        found: dict[str, Incomes] = {}
        for entity, held in self._versions.items():
            pool = entity.removeprefix(POOL)
            for index, version in enumerate(held):
                following = held[index + 1].effective_ms if index + 1 < len(held) else end_ms
                span_ms = min(end_ms, following) - max(start_ms, version.effective_ms)
                if span_ms > 0 and version.members:
                    earned = version.incomes(span_ms)
                    found[pool] = _sums(found[pool], earned) if pool in found else earned
        return found

    def members(self, at_ms: int) -> Mapping[str, Member]:
        """Return the teams of this partition by the documents that count at a time.

        Intake refuses a team in two pools; should it happen, the first pool in id order counts.
        The same object is returned for as long as nothing changes.
        """
        valid_from_ms, valid_until_ms = self._valid_ms
        if valid_from_ms <= at_ms < valid_until_ms:
            return self._members
        since_ms, until_ms = ALWAYS_MS, NEVER_MS
        found: dict[str, Member] = {}
        for entity in sorted(self._versions):
            held = self._versions[entity]
            at = bisect_right(held, at_ms, key=_effective_ms)
            if at < len(held):
                until_ms = min(until_ms, held[at].effective_ms)
            if at > 0:
                since_ms = max(since_ms, held[at - 1].effective_ms)
                for team, member in held[at - 1].members.items():
                    found.setdefault(team, member)
        self._members, self._valid_ms = found, (since_ms, until_ms)
        return found

    def max_balance_hours(self, at_ms: int) -> int:
        """Return the cap of wallets, in hours of income."""
        held = self._versions.get(PLATFORM, [])
        at = bisect_right(held, at_ms, key=_effective_ms) - 1
        return held[at].max_balance_hours if at >= 0 else PlatformDocument().max_balance_hours

    def forget(self, before_ms: int) -> None:
        """Forget the versions that were superseded at or before an instant."""
        for held in self._versions.values():
            count = bisect_right(held, before_ms, key=_effective_ms) - 1
            if count > 0:
                del held[:count]

    def _own(self, document: PoolDocument) -> Mapping[str, Member]:
        total = sum(team.income_local_per_hour for team in document.teams)
        return {
            team.team: Member(
                document.pool,
                document.billing.zone,
                document.weight_micro_per_hour,
                team.income_local_per_hour,
                total,
                team.budgets,
            )
            for team in document.teams
            if self.is_mine(team.team)
        }


def _sums(one: Incomes, other: Incomes) -> Incomes:
    sums = {**one}
    for team, amount in other.items():
        sums[team] = plus(sums[team], amount) if team in sums else amount
    return sums


def _effective_ms(version: _Version) -> int:
    return version.effective_ms


def _by_effect(version: _Version) -> tuple[int, int]:
    return version.effective_ms, version.number
