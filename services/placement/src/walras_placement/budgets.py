"""Teams that may not spend any more, and since when placement knows."""

import json
from typing import Final

from walras_contracts.money import BudgetPublished
from walras_runtime.records import StateChange

TOLD: Final = "~exhausted/"
"""Records of the own state: no id begins with a tilde."""


class ExhaustedTeams:
    """Whether each team is exhausted, from ``budgets``; when placement was told so is its own."""

    def __init__(self) -> None:
        self._exhausted: dict[str, None] = {}
        self._told_ms: dict[str, int] = {}
        self._changed: dict[str, None] = {}

    def put(self, team: str, budget: BudgetPublished | None) -> None:
        """Take the latest budget of a team; None: it has none."""
        if budget is not None and budget.exhausted:
            self._exhausted[team] = None
        else:
            self._exhausted.pop(team, None)
        self._changed[team] = None

    def load(self, key: str, value: bytes) -> None:
        """Take back one record of the own state."""
        self._told_ms[key.removeprefix(TOLD)] = json.loads(value)

    def begin(self, now_ms: int) -> list[StateChange]:
        """Begin a step: what came since the last one was told at its market time.

        Returns
        -------
        list
            The changes of the own state.
        """
        changes = []
        for team in sorted(self._changed):
            if (team in self._exhausted) == (team in self._told_ms):
                continue
            if team in self._exhausted:
                self._told_ms[team] = now_ms
                changes.append(StateChange(TOLD + team, str(now_ms).encode()))
            else:
                del self._told_ms[team]
                changes.append(StateChange(TOLD + team, None))
        self._changed.clear()
        return changes

    def told_ms(self, team: str) -> int | None:
        """Return since when a team is known to be exhausted; None: it is not."""
        return self._told_ms.get(team)
