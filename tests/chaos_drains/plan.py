"""What a run does, and when: a pure function of the seed.

Jobs and quotas are functions of the number of a step, for as long as a run lasts; deaths come one
after another, however long each takes.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from tests.chaos.plan import Gap
from tests.chaos_drains.terms import NODES, SUPPLY, TEAMS

MOST_STEPS: Final = 6_000
"""Jobs and quotas are planned for so long; a run ends before."""
SLOTS: Final = 5
"""So many jobs of a team are in the queue at a time."""
LONGEST_PAUSE_MS: Final = 1_500
GAPS: Final = tuple(gap for gap in Gap if gap is not Gap.BEFORE_CLAIM)
"""Before the claim nothing of a step loop has begun: as good as a death from outside."""
BEHAVIOURS: Final = (
    *("polite", "polite", "polite", "stays", "stays", "deaf", "deaf"),
    *("stubborn", "family", "finishes", "crashes"),
)
SIZES: Final = (1, 1, 1, 2, 2)
"""In devices."""
SIZES_WITH_GANGS: Final = (1, 2, 5, 5)
"""Of a team's first slot: five devices are a gang that no node holds alone."""


class Kind(StrEnum):
    """What is done."""

    AGENT = "agent"
    """SIGKILL of an agent, which is back soon."""
    AGENT_AWAY = "agent_away"
    """SIGKILL of an agent, which is back when its node is lost."""
    DRAIN = "drain"
    """SIGKILL of the drain service."""
    PLACEMENT = "placement"
    """SIGKILL of placement."""
    BROKER = "broker"
    """SIGKILL of the broker, and a restart on the same data."""
    TOGETHER = "together"
    """Two of the others at once."""
    CLAWBACK = "clawback"
    """Nobody dies: a node is withheld at once, and given back later."""


KILLS: Final = tuple(kind for kind in Kind if kind is not Kind.CLAWBACK)
OF_A_NODE: Final = frozenset({Kind.AGENT, Kind.AGENT_AWAY, Kind.CLAWBACK})
PAIRS: Final = (
    (Kind.AGENT, Kind.DRAIN),
    (Kind.AGENT, Kind.PLACEMENT),
    (Kind.DRAIN, Kind.PLACEMENT),
    (Kind.AGENT, Kind.BROKER),
    (Kind.AGENT_AWAY, Kind.PLACEMENT),
    (Kind.AGENT_AWAY, Kind.DRAIN),
)
OFTEN: Final = (
    *(Kind.AGENT, Kind.AGENT, Kind.AGENT, Kind.DRAIN, Kind.DRAIN, Kind.PLACEMENT, Kind.PLACEMENT),
    *(Kind.BROKER, Kind.AGENT_AWAY, Kind.TOGETHER, Kind.TOGETHER, Kind.CLAWBACK),
)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One disturbance.

    ``after_steps`` steps are let pass before it, ``delay_ms`` more into the step; ``gap`` is where
    in its step loop a service dies, None: anywhere, by a signal from outside.
    """

    kind: Kind
    pair: tuple[Kind, ...]
    node: str
    gap: Gap | None
    after_steps: int
    delay_ms: int
    pause_ms: int

    def kills(self) -> int:
        """Return how many processes it kills."""
        return 0 if self.kind is Kind.CLAWBACK else len(self.pair) or 1

    def describe(self) -> str:
        """Return it in words."""
        kinds = self.pair or (self.kind,)
        places = [self.node] if OF_A_NODE.intersection(kinds) else []
        places += [self.gap.value] if self.gap else []
        what = " and ".join(kinds) + (f" ({' '.join(places)})" if places else "")
        return what.replace("_", " ")


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job: in the queue from ``first_step`` on, its end is in ``last_step``.

    ``cancelled_step``: its team withdraws it; None: it never does.
    """

    team: str
    name: str
    position: int
    devices: int
    behaviour: str
    save_ms: int
    first_step: int
    cancelled_step: int | None
    last_step: int


@dataclass(frozen=True)
class Plan:
    """All of a run: deaths, jobs, quotas.

    ``drains``: at least so many are to begin. ``still``: jobs run for ever, and quotas stay.
    """

    seed: int
    drains: int
    disturbances: tuple[Disturbance, ...]
    still: bool = False

    @cached_property
    def jobs(self) -> Mapping[int, Sequence[tuple[PlannedJob, str]]]:
        """Jobs that come, are cancelled or go, by step."""
        found: dict[int, list[tuple[PlannedJob, str]]] = {}
        for team in TEAMS:
            for job in _lasting_jobs(team) if self.still else _jobs_of(self.seed, team):
                found.setdefault(job.first_step, []).append((job, "comes"))
                if job.cancelled_step is not None:
                    found.setdefault(job.cancelled_step, []).append((job, "cancelled"))
                found.setdefault(job.last_step, []).append((job, "goes"))
        return found

    @cached_property
    def quotas(self) -> Mapping[int, Mapping[str, tuple[int, int]]]:
        """Devices that each team bought, and may use for nothing, by the step of a change."""
        if self.still:
            return {0: dict.fromkeys(TEAMS, (SUPPLY // len(TEAMS), 0))}
        chooser = random.Random(f"{self.seed}/quotas")
        found, step = {}, 0
        while step < MOST_STEPS:
            found[step] = _shared_out(chooser)
            step += chooser.randint(4, 9)
        return found

    def kills(self) -> int:
        """Return how many processes are killed."""
        return sum(each.kills() for each in self.disturbances)


def plan_of(seed: int, drains: int, kills: int) -> Plan:
    """Return the plan of a seed: every kind at least once, in random order.

    Raises
    ------
    ValueError
        So few kills do not hold each kind.
    """
    chooser = random.Random(f"{seed}/deaths")
    wanted = [*KILLS, Kind.CLAWBACK]
    made = [_disturbance(chooser, kind) for kind in wanted]
    if kills < sum(each.kills() for each in made):
        raise ValueError(f"kills: at least {sum(each.kills() for each in made)}, was {kills}")
    while (left := kills - sum(each.kills() for each in made)) > 0:
        fitting = [kind for kind in OFTEN if left > 1 or kind is not Kind.TOGETHER]
        made.append(_disturbance(chooser, chooser.choice(fitting)))
    chooser.shuffle(made)
    return Plan(seed, drains, tuple(made))


def _disturbance(chooser: random.Random, kind: Kind) -> Disturbance:
    return Disturbance(
        kind=kind,
        pair=chooser.choice(PAIRS) if kind is Kind.TOGETHER else (),
        node=chooser.choice(NODES),
        gap=chooser.choice((None, *GAPS)) if kind in {Kind.DRAIN, Kind.PLACEMENT} else None,
        after_steps=chooser.randint(2, 6),
        delay_ms=chooser.randint(0, 500),
        pause_ms=chooser.randint(0, LONGEST_PAUSE_MS),
    )


def _jobs_of(seed: int, team: str) -> list[PlannedJob]:
    """Return all jobs of a team: in each of its slots one after another."""
    found: list[PlannedJob] = []
    for slot in range(SLOTS):
        chooser = random.Random(f"{seed}/{team}/{slot}")
        step, number = chooser.randint(0, 3), 0
        while step < MOST_STEPS:
            lasts = chooser.randint(20, 90)
            is_cancelled = chooser.random() < 0.3
            found.append(
                PlannedJob(
                    team,
                    f"{team}-{slot}-{number}",
                    number * SLOTS + slot,
                    chooser.choice(SIZES if slot else SIZES_WITH_GANGS),
                    chooser.choice(BEHAVIOURS),
                    chooser.randint(0, 900),
                    step,
                    step + chooser.randint(8, lasts - 1) if is_cancelled else None,
                    step + lasts,
                )
            )
            step, number = step + lasts + chooser.randint(1, 3), number + 1
    return found


def _lasting_jobs(team: str) -> list[PlannedJob]:
    """Return jobs of one device each, as many as a team has devices, that never end."""
    return [
        PlannedJob(team, f"{team}-{number}", number, 1, "deaf", 0, 0, None, MOST_STEPS)
        for number in range(SUPPLY // len(TEAMS))
    ]


def _shared_out(chooser: random.Random) -> dict[str, tuple[int, int]]:
    """Return a random division of the supply: bought, and for nothing."""
    cuts = sorted(chooser.randint(0, SUPPLY) for _ in TEAMS[1:])
    shares = [b - a for a, b in zip([0, *cuts], [*cuts, SUPPLY], strict=True)]
    gifts = [chooser.randint(0, share) if chooser.random() < 0.25 else 0 for share in shares]
    return {
        team: (share - gift, gift) for team, share, gift in zip(TEAMS, shares, gifts, strict=True)
    }
