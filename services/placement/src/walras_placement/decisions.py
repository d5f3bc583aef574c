"""What a plan decides: values, carried out by :mod:`walras_placement.core`."""

from dataclasses import dataclass, field

from walras_contracts.drains import VacateReason
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import WorkClass
from walras_placement.jobs import Job
from walras_placement.outcomes import Outcome
from walras_placement.shares import Share


@dataclass(frozen=True, slots=True)
class Reclass:
    """A running job whose work is rated otherwise from now on."""

    job: Job
    work_class: WorkClass


@dataclass(frozen=True, slots=True)
class Vacate:
    """A running job that must leave, or one that was about to stay after all."""

    job: Job
    reason: VacateReason


@dataclass(frozen=True, slots=True)
class Stay:
    """A leaving job that may stay after all."""

    job: Job


@dataclass(frozen=True, slots=True)
class Reserve:
    """Devices that are kept for a pending job, in place of those that were."""

    job: Job
    market: str
    shares: tuple[Share, ...]
    standing: bool


@dataclass(frozen=True, slots=True)
class Grant:
    """A pending job that starts, with all its parts."""

    job: Job
    market: str
    work_class: WorkClass
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """A pending job that is short of something else than before; it needs whole devices."""

    job: Job
    reason: WaitReason
    needed_macc: int
    available_macc: int


@dataclass(slots=True)
class Wake:
    """When a team is to be planned again though nothing happens to it; None: never."""

    at_ms: int | None = None
    at_step: int | None = None

    def by_ms(self, at_ms: int) -> None:
        """Plan again at a market time at the latest."""
        if self.at_ms is None or at_ms < self.at_ms:
            self.at_ms = at_ms

    def by_step(self, step: int) -> None:
        """Plan again in a step at the latest."""
        if self.at_step is None or step < self.at_step:
            self.at_step = step


@dataclass(slots=True)
class Plan:
    """All that a step decides, each list in team order, then by key or queue order."""

    released: dict[str, Job] = field(default_factory=dict)
    """Jobs that lose their reservations, by key."""
    reclassed: list[Reclass] = field(default_factory=list)
    vacated: list[Vacate] = field(default_factory=list)
    stays: dict[str, Stay] = field(default_factory=dict)
    """By lease."""
    reserved: list[Reserve] = field(default_factory=list)
    granted: list[Grant] = field(default_factory=list)
    waiting: list[Wait] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    wakes: dict[str, Wake] = field(default_factory=dict)
    again: dict[str, None] = field(default_factory=dict)
    """Teams to be planned again in the next step."""
    open_macc: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What is open, and what may be started, of each type when the plan is carried out."""
