"""What the last plan of each team came to, for the next one and for the figures.

A team that is not planned again keeps its outcome: nothing that it depends on has changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from walras_placement.jobs import Job


@dataclass(frozen=True, slots=True)
class Short:
    """A pending job with quota in a market, but without devices there that are together."""

    job: Job
    market: str
    bought: bool
    """Or opportunistic quota only."""


@dataclass(slots=True)
class Outcome:
    """What the plan of a team came to."""

    short: dict[str, Short] = field(default_factory=dict)
    """By job."""
    waits_for: dict[str, None] = field(default_factory=dict)
    """Types of which more open devices may let a job start."""
    unspent: dict[str, int] = field(default_factory=dict)
    """Bought quota that is not occupied, by market (macc)."""
    seen: object = None
    """All that a reason other than a lack of devices depends on, but for the job itself."""


class Outcomes:
    """The outcomes of all teams, with sums and an index by type."""

    def __init__(self) -> None:
        self._of: dict[str, Outcome] = {}
        self._waiting: dict[str, dict[str, None]] = {}
        self.unspent_macc: dict[str, int] = {}
        self.open_macc: dict[str, tuple[int, int]] = {}
        """What was open and startable of each type when reasons were last told."""

    def put(self, team: str, outcome: Outcome) -> None:
        """Replace the outcome of a team."""
        before = self._of.get(team)
        if before is not None:
            for kind in before.waits_for:
                self._waiting[kind].pop(team, None)
            self._add_unspent(before, -1)
        self._of[team] = outcome
        for kind in outcome.waits_for:
            self._waiting.setdefault(kind, {})[team] = None
        self._add_unspent(outcome, 1)

    def get(self, team: str) -> Outcome | None:
        """Return the outcome of a team; None: it was never planned."""
        return self._of.get(team)

    def short_of(self, kind: str) -> Mapping[str, None]:
        """Return the teams that have a job to which open devices of a type matter."""
        return self._waiting.get(kind, {})

    def each(self) -> list[tuple[str, Outcome]]:
        """Return all outcomes, by team."""
        return [(team, self._of[team]) for team in sorted(self._of)]

    def _add_unspent(self, outcome: Outcome, sign: int) -> None:
        for market, macc in outcome.unspent.items():
            self.unspent_macc[market] = self.unspent_macc.get(market, 0) + sign * macc
