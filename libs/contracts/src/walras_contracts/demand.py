"""What teams ask for: jobs submitted, changed, cancelled; the queue that intake makes of them."""

from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import Field, ValidationInfo, field_validator

from walras_contracts.event import Event
from walras_contracts.identifiers import Id, RecordedId, Text, job_key, recorded
from walras_contracts.quantities import (
    NUMBER_MAX,
    DurationMs,
    LimitMicro,
    MarketTimeMs,
    Number,
    PositiveMacc,
)
from walras_contracts.rejections import Rejection
from walras_contracts.runs import RunSpec
from walras_contracts.sequences import Distinct

AcceptedTypes = Annotated[
    tuple[Id, ...], Field(min_length=1, max_length=16, strict=False), Distinct()
]


class Drainability(StrEnum):
    """What a job declares about being drained."""

    RESTART = "restart"
    CHECKPOINT = "checkpoint"
    NONE = "none"


class JobSubmitted(Event):
    """A team asks for accelerators for one job."""

    TYPE: ClassVar[str] = "walras.job.submitted.v1"
    TOPIC: ClassVar[str] = "demand"

    team: Id
    job: Id
    types: AcceptedTypes
    """Acceptable resource types, preferred first."""
    size_macc: PositiveMacc
    gang: bool = True
    """All of the size or nothing."""
    limit_micro: LimitMicro | None = None
    """Highest price per accelerator-hour; null: no limit; 0: opportunistic only."""
    expected_run_ms: DurationMs | None = None
    """Run time that is left; a simulated fleet runs the job this long."""
    minimum_run_ms: DurationMs = 0
    drainability: Annotated[Drainability, Field(strict=False)] = Drainability.RESTART
    deadline_ms: MarketTimeMs | None = None
    submitted_ms: MarketTimeMs
    run: RunSpec | None = None
    """What node agents start; null: only a simulated fleet can run it."""

    def record_key(self) -> str:
        """Key ``team/job``."""
        return job_key(self.team, self.job)

    def partition_key(self) -> str:
        """By team."""
        return self.team

    @field_validator("submitted_ms")
    @classmethod
    def _submission_precedes_deadline(cls, submitted_ms: int, info: ValidationInfo) -> int:
        deadline_ms = info.data.get("deadline_ms")
        if deadline_ms is not None and submitted_ms >= deadline_ms:
            raise ValueError("must be earlier than deadline_ms")
        return submitted_ms


class JobLimitChanged(Event):
    """A team changes what a job may cost; revisions of a job only grow."""

    TYPE: ClassVar[str] = "walras.job.limit_changed.v1"
    TOPIC: ClassVar[str] = "demand"

    team: Id
    job: Id
    revision: Annotated[int, Field(strict=True, ge=1, le=NUMBER_MAX)]
    limit_micro: LimitMicro | None

    def record_key(self) -> str:
        """Key ``team/job``."""
        return job_key(self.team, self.job)

    def partition_key(self) -> str:
        """By team."""
        return self.team


class JobCancelled(Event):
    """A team withdraws a job."""

    TYPE: ClassVar[str] = "walras.job.cancelled.v1"
    TOPIC: ClassVar[str] = "demand"

    team: Id
    job: Id

    def record_key(self) -> str:
        """Key ``team/job``."""
        return job_key(self.team, self.job)

    def partition_key(self) -> str:
        """By team."""
        return self.team


class JobQueued(Event):
    """A job that intake accepted, whole; the latest record of a key is the job as it stands.

    A tombstone ends it.
    """

    TYPE: ClassVar[str] = "walras.job.queued.v1"
    TOPIC: ClassVar[str] = "queue"

    team: Id
    pool: Id
    job: Id
    types: AcceptedTypes
    size_macc: PositiveMacc
    gang: bool
    limit_micro: LimitMicro | None
    expected_run_ms: DurationMs | None
    minimum_run_ms: DurationMs
    drainability: Annotated[Drainability, Field(strict=False)]
    deadline_ms: MarketTimeMs | None
    submitted_ms: MarketTimeMs
    position: Number
    """Place in the team's queue; lower goes first."""
    revision: Number
    cancelled: bool
    """Withdrawn by its team: no demand any more; placement ends what still runs."""
    run: RunSpec | None = None

    def record_key(self) -> str:
        """Key ``team/job``."""
        return job_key(self.team, self.job)

    def partition_key(self) -> str:
        """By team."""
        return self.team


class DemandRejected(Event):
    """What intake refused, with the field and the reason."""

    TYPE: ClassVar[str] = "walras.demand.rejected.v1"
    TOPIC: ClassVar[str] = "demand.rejected"

    code: Text
    path: Text
    """JSON path of the offending field; empty for the whole event."""
    reason: Text
    source: Text
    event_id: RecordedId
    """Id of the refused event; empty where it had none."""
    topic: Text
    partition: Number
    offset: Number

    @classmethod
    def of(
        cls,
        rejection: Rejection,
        *,
        source: str | None,
        event_id: str | None,
        topic: str,
        partition: int,
        offset: int,
    ) -> Self:
        """Record a rejection, whatever the refused record's attributes look like.

        A missing attribute is recorded as empty; one that is too long or not Unicode is cut and
        repaired, so that a refusal can always be written.
        """
        return cls(
            code=rejection.code.value,
            path=recorded(rejection.path, 500),
            reason=recorded(rejection.reason, 500),
            source=recorded(source or "", 500),
            event_id=recorded(event_id or "", 200),
            topic=topic,
            partition=partition,
            offset=offset,
        )

    def record_key(self) -> str:
        """Key: the coordinates of the refused record."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    def partition_key(self) -> str:
        """By coordinates; intake names its own partition explicitly."""
        return self.record_key()
