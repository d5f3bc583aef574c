"""Income, spending and wallets over time, from the entries of the ledger."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from walras.report.records import LogRecord
from walras.report.series import Bins
from walras_contracts.ledger import EntryKind

WALLET_PREFIX = "wallet/"
INCOME, USAGE = EntryKind.INCOME.value, EntryKind.USAGE.value


@dataclass(slots=True)
class Movements:
    """What changed a team's wallet, by bin."""

    income_micro: list[int]
    spent_micro: list[int]
    wallet_micro: list[int]
    at_boundary_micro: dict[int, int] = field(default_factory=dict)
    """All changes of the wallet by settled boundary."""


@dataclass(slots=True)
class LedgerBook:
    """Folds the ledger; what was settled at a boundary belongs to the bin that it ends or is in."""

    bins: Bins
    teams: dict[str, Movements] = field(default_factory=dict)
    settled_ms: int | None = None
    """The newest boundary that an entry is of."""

    def fold(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``ledger``."""
        bins = self.bins
        for record in records:
            body = record.body()
            boundary_ms, kind = body["boundary_ms"], body["kind"]
            amount = sum(
                line["amount_micro"]
                for line in body["lines"]
                if line["account"].startswith(WALLET_PREFIX)
            )
            team = self.teams.get(body["team"])
            if team is None:
                empty = [0] * bins.count
                team = self.teams[body["team"]] = Movements([*empty], [*empty], [*empty])
            index = bins.index(boundary_ms - 1)
            team.wallet_micro[index] += amount
            known = team.at_boundary_micro.get(boundary_ms, 0)
            team.at_boundary_micro[boundary_ms] = known + amount
            if kind == INCOME:
                team.income_micro[index] += amount
            elif kind == USAGE:
                team.spent_micro[index] -= amount
            if self.settled_ms is None or boundary_ms > self.settled_ms:
                self.settled_ms = boundary_ms

    def report(self, balances: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return running totals at the end of each bin, None behind what is settled.

        Parameters
        ----------
        balances
            The last balance of each team; those that are not the sum of its entries are named.
        """
        return {
            "settled_until_ms": self.settled_ms,
            "teams": {
                team: {
                    "income_micro": self._running(found.income_micro),
                    "spent_micro": self._running(found.spent_micro),
                    "wallet_micro": self._running(found.wallet_micro),
                }
                for team, found in sorted(self.teams.items())
            },
            "balances_that_differ": [
                team
                for team, balance in sorted(balances.items())
                if self._wallet_micro(team, balance["boundary_ms"]) != balance["wallet_micro"]
            ],
        }

    def _wallet_micro(self, team: str, until_ms: int) -> int:
        found = self.teams.get(team)
        if found is None:
            return 0
        return sum(amount for at_ms, amount in found.at_boundary_micro.items() if at_ms <= until_ms)

    def _running(self, changes: list[int]) -> list[int | None]:
        settled_ms = self.bins.start_ms if self.settled_ms is None else self.settled_ms
        last = self.bins.index(settled_ms - 1)
        total, found = 0, list[int | None]()
        for index, change in enumerate(changes):
            total += change
            found.append(total if index <= last else None)
        return found
