"""Accounts over time: the versions of each document, and from when each counts."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from walras_contracts.accounts import AccountsChanged, PlatformDocument, PoolDocument

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Income:
    """What a team of a pool earns over [start, end)."""

    team: str
    pool: str
    amount_micro: Fraction


@dataclass(frozen=True, slots=True)
class _Version:
    effective_ms: int
    change: AccountsChanged


class AccountBook:
    """All versions of all documents; folding a record again changes nothing."""

    def __init__(self) -> None:
        self._versions: dict[str, list[_Version]] = {}

    def put(self, change: AccountsChanged) -> None:
        """Take a version of a document."""
        held = self._versions.setdefault(change.document.entity(), [])
        held[:] = [v for v in held if v.change.version != change.version]
        held.append(_Version(change.effective_ms, change))
        held.sort(key=_by_effect)

    def incomes(self, start_ms: int, end_ms: int) -> Iterator[Income]:
        """Yield what each team earns over [start, end), exactly, by pool and time.

        A team earns W · income / C per hour while a document of its pool counts; C is the sum of
        the pool's local incomes.
        """
        for entity in sorted(self._versions):
            held = self._versions[entity]
            for index, version in enumerate(held):
                document = version.change.document
                if not isinstance(document, PoolDocument):
                    continue
                following = held[index + 1].effective_ms if index + 1 < len(held) else end_ms
                span_ms = min(end_ms, following) - max(start_ms, version.effective_ms)
                if span_ms > 0:
                    yield from _incomes(document, Fraction(span_ms, HOUR_MS))

    def hourly(self, at_ms: int) -> dict[str, Income]:
        """Return by team what it earns per hour by the documents that count at a time."""
        found: dict[str, Income] = {}
        for entity in sorted(self._versions):
            document = self._in_force(entity, at_ms)
            if isinstance(document, PoolDocument):
                for income in _incomes(document, Fraction(1)):
                    found.setdefault(income.team, income)
        return found

    def max_balance_hours(self, at_ms: int) -> int:
        """Return the cap of wallets, in hours of income."""
        document = self._in_force("platform", at_ms)
        platform = document if isinstance(document, PlatformDocument) else PlatformDocument()
        return platform.max_balance_hours

    def _in_force(self, entity: str, at_ms: int) -> object:
        held = self._versions.get(entity, [])
        at = bisect_right(held, at_ms, key=_effective_ms) - 1
        return held[at].change.document if at >= 0 else None


def _incomes(document: PoolDocument, hours: Fraction) -> Iterator[Income]:
    total = sum(team.income_local_per_hour for team in document.teams)
    for team in document.teams:
        share = Fraction(team.income_local_per_hour, total) if total else Fraction(0)
        yield Income(team.team, document.pool, document.weight_micro_per_hour * share * hours)


def _effective_ms(version: _Version) -> int:
    return version.effective_ms


def _by_effect(version: _Version) -> tuple[int, int]:
    return version.effective_ms, version.change.version
