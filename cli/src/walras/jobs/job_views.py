"""One job as all the topics together show it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from walras.jobs.queue_places import QueuePlace
from walras_contracts.demand import JobQueued
from walras_contracts.drains import DrainSessionChanged, SessionState
from walras_contracts.wait_reasons import ENDED_STATES
from walras_contracts.work import JobState, JobStatusChanged, LeaseGranted, LeaseStatusChanged

ENDED_SESSIONS = frozenset({SessionState.FREED, SessionState.FAILED, SessionState.CANCELLED})
QUEUED = "queued"
"""State of a job that placement has not looked at yet."""


class Verdict(StrEnum):
    """A price against a job's limit."""

    WITHIN = "within"
    ABOVE = "above"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TypePrice:
    """What a type costs a job's pool, in the cycle of its last prices."""

    type: str
    price_micro: int | None
    cycle: int | None
    limit_micro: int | None

    @property
    def verdict(self) -> Verdict:
        """Whether the job's limit covers the price."""
        if self.price_micro is None:
            return Verdict.UNKNOWN
        covers = self.limit_micro is None or self.limit_micro >= self.price_micro
        return Verdict.WITHIN if covers else Verdict.ABOVE

    @property
    def short_by_micro(self) -> int:
        """By how much the limit is too low."""
        if self.price_micro is None or self.limit_micro is None:
            return 0
        return max(0, self.price_micro - self.limit_micro)


@dataclass(slots=True)
class JobView:
    """A job; ``cycle``: in which it was said why it waits."""

    team: str
    job: str
    queued: JobQueued | None
    status: JobStatusChanged | None
    place: QueuePlace | None = None
    prices: tuple[TypePrice, ...] = ()
    parts: tuple[LeaseGranted, ...] = ()
    parts_said: Mapping[str, LeaseStatusChanged] = field(default_factory=dict)
    """What the agents said of the parts, by node; read for the page of one job alone."""
    session: DrainSessionChanged | None = None
    cycle: int | None = None

    @property
    def state(self) -> str:
        """Where it stands."""
        return QUEUED if self.status is None else self.status.state.value

    @property
    def is_pending(self) -> bool:
        """Whether it waits for a place."""
        return (
            self.queued is not None
            and not self.queued.cancelled
            and (self.status is None or self.status.state is JobState.PENDING)
        )

    @property
    def has_ended(self) -> bool:
        """Whether it left, or is on its way out of the queue with nothing held."""
        return self.status is not None and self.status.state in ENDED_STATES

    @property
    def is_draining(self) -> bool:
        """Whether a session of it is under way."""
        return self.session is not None and self.session.state not in ENDED_SESSIONS

    @property
    def short_by_macc(self) -> int:
        """What it lacks of what it needs, while it waits."""
        return 0 if self.status is None else self.status.short_by_macc

    @property
    def limit_micro(self) -> int | None:
        """Highest price; None also where the queue does not hold the job any more."""
        return None if self.queued is None else self.queued.limit_micro
