"""The pool that each team's wallet names: the one that the team is in, or was in last.

A wallet begins with the first thing that concerns it: use that is rated, an income, or a budget. At
each settled boundary it turns to the pool whose document names the team then.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping

from walras.audit.expected_ledger import ExpectedLedger
from walras.audit.memberships import Memberships

FirstRated = Mapping[str, tuple[int, str]]
"""By team the step that rated its first use, and the pool of that."""


class HomePools:
    """The wallets of one partition of teams.

    Parameters
    ----------
    members
        Who is in which pool.
    ledger
        Its settled boundaries and incomes.
    rated
        The first use of each team.
    is_mine
        Whether a team is of the partition.
    """

    def __init__(
        self,
        members: Memberships,
        ledger: ExpectedLedger,
        rated: FirstRated,
        is_mine: Callable[[str], bool],
    ) -> None:
        self._turns: dict[str, list[tuple[int, str]]] = {}
        """By team, the steps from which on its wallet names a pool."""
        self.begun: dict[int, list[str]] = defaultdict(list)
        """By step, teams whose wallets begin by what is rated or settled in it."""
        self.begun_by_budget: dict[int, list[str]] = defaultdict(list)
        """By step, teams whose wallets begin when their budgets are looked at, at its end."""
        settled: dict[int, list[int]] = defaultdict(list)
        for boundary_ms, step in ledger.boundaries:
            settled[step].append(boundary_ms)
        began: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for team, (step, pool) in sorted(rated.items()):
            began[step].append((team, pool))
        for (team, pool), step in ledger.earned_since.items():
            began[step].append((team, pool))
        for step in sorted(members.changes | settled.keys() | began.keys()):
            for team, pool in began.get(step, ()):
                if team not in self._turns:
                    self._turn(team, step, pool)
            for boundary_ms in settled.get(step, ()):
                for team, member in members.at(boundary_ms, step).items():
                    if is_mine(team):
                        self._turn(team, step, member.pool)
            if step in members.changes:
                for team, member in members.at_step(step).items():
                    if member.budgets and team not in self._turns and is_mine(team):
                        self._turns[team] = [(step, member.pool)]
                        self.begun_by_budget[step].append(team)

    def pool(self, team: str, step: int) -> str | None:
        """Return what a team's wallet names after a step; None: it has none yet."""
        turns = self._turns.get(team, [])
        at = bisect_right(turns, step, key=_step) - 1
        return turns[at][1] if at >= 0 else None

    def _turn(self, team: str, step: int, pool: str) -> None:
        turns = self._turns.setdefault(team, [])
        if not turns:
            self.begun[step].append(team)
        if not turns or turns[-1][1] != pool:
            turns.append((step, pool))


def _step(turn: tuple[int, str]) -> int:
    return turn[0]
