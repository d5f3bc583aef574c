"""Who is in which pool, with which budgets: by the documents that count at a time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from walras.audit.incomes import Accounts
from walras.audit.steps import Clock
from walras_contracts.accounts import BillingTerms, TeamBudget


@dataclass(frozen=True, slots=True)
class Member:
    """What a team is by the document of its pool."""

    pool: str
    zone: str
    has_income: bool
    budgets: tuple[TeamBudget, ...]


class Memberships:
    """The teams of all partitions by the documents that count.

    Parameters
    ----------
    accounts
        All documents, with the steps that told them.
    clock
        When the steps were.
    """

    def __init__(self, accounts: Accounts, clock: Clock) -> None:
        self._accounts = accounts
        self._clock = clock
        self._of_document: dict[int, dict[str, Member]] = {}
        """By identity: the accounts keep the documents."""
        self.changes: set[int] = set()
        """The steps from which on other documents count than before."""
        self.budgeted: set[str] = set()
        """Teams that have a budget at any time."""
        for version in accounts.pool_versions():
            step = clock.step_at(version.effective_ms)
            if step is not None:
                self.changes.add(max(step, version.step))
            teams = version.document["teams"]
            self.budgeted |= {team["team"] for team in teams if team.get("budgets")}

    def at_step(self, step: int) -> Mapping[str, Member]:
        """Return the teams by the documents that count at the time of a step."""
        return self.at(self._clock.times_ms[step], step)

    def at(self, at_ms: int, step: int) -> Mapping[str, Member]:
        """Return the teams by the documents that count at a time, as known by a step.

        Intake refuses a team in two pools; should it happen, the first pool counts.
        """
        found: dict[str, Member] = {}
        for document in self._accounts.pools_at(at_ms, step):
            teams = self._of_document.get(id(document))
            if teams is None:
                teams = self._of_document[id(document)] = _members(document)
            found = teams | found
        return found


def _members(document: dict[str, Any]) -> dict[str, Member]:
    zone = BillingTerms.model_validate(document.get("billing", {})).zone
    return {
        team["team"]: Member(
            pool=document["pool"],
            zone=zone,
            has_income=document["weight_micro_per_hour"] > 0 and team["income_local_per_hour"] > 0,
            budgets=tuple(TeamBudget.model_validate(each) for each in team.get("budgets", ())),
        )
        for team in document["teams"]
    }
