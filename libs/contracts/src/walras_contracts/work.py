"""Quota turned into work: leases, what became of jobs, leases and drains, metered use."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import (
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from walras_contracts.demand import Drainability
from walras_contracts.event import Event
from walras_contracts.identifiers import Id, Text, job_key, lease_part_key
from walras_contracts.quantities import (
    PPM,
    Count,
    DeviceIndex,
    DurationMs,
    LimitMicro,
    Macc,
    MarketTimeMs,
    Number,
    PositiveMacc,
    Ppm,
)
from walras_contracts.runs import RunSpec
from walras_contracts.sequences import Distinct


class WorkClass(StrEnum):
    """How work is rated."""

    MARKET = "market"
    OPPORTUNISTIC = "opportunistic"
    OVERHANG = "overhang"


class LeaseGranted(Event):
    """The part of a lease on one node: these devices belong to this job. A tombstone ends it."""

    TYPE: ClassVar[str] = "walras.lease.granted.v1"
    TOPIC: ClassVar[str] = "leases"

    lease: Id
    node: Id
    part: Count
    parts: Count
    """How many parts the gang has."""
    attempt: Count
    job: Id
    team: Id
    pool: Id
    market: Id
    work_class: Annotated[WorkClass, Field(strict=False)]
    devices: Annotated[tuple[DeviceIndex, ...], Field(strict=False), Distinct()]
    size_macc: PositiveMacc
    limit_micro: LimitMicro | None
    tariff_ppm: Ppm = PPM
    granted_ms: MarketTimeMs
    remaining_run_ms: DurationMs | None
    drainability: Annotated[Drainability, Field(strict=False)] = Drainability.RESTART
    run: RunSpec | None = None
    """What an agent starts; null: nothing but a simulated fleet can run it."""
    may_start: bool = True
    """Whether all parts were accepted by their agents; none is started before. False again once the
    part was given up with its lost node: an agent that comes back must not start it."""

    @field_validator("parts")
    @classmethod
    def _part_is_one_of_the_parts(cls, parts: int, info: ValidationInfo) -> int:
        if "part" in info.data and info.data["part"] >= parts:
            raise ValueError("must be greater than part, which counts from 0")
        return parts

    def record_key(self) -> str:
        """Key ``lease/node``."""
        return lease_part_key(self.lease, self.node)

    def partition_key(self) -> str:
        """By node."""
        return self.node


class JobState(StrEnum):
    """Where a job stands."""

    PENDING = "pending"
    RUNNING = "running"
    DRAINING = "draining"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class JobStatusChanged(Event):
    """Where a job stands, and why it waits."""

    TYPE: ClassVar[str] = "walras.job.status.v1"
    TOPIC: ClassVar[str] = "job.status"

    team: Id
    job: Id
    state: Annotated[JobState, Field(strict=False)]
    reason: Text
    """Code of what it is short of while pending; empty otherwise."""
    market: Id | None
    lease: Id | None
    work_class: Annotated[WorkClass, Field(strict=False)] | None
    attempt: Count
    remaining_run_ms: DurationMs | None
    waited_ms: DurationMs
    """Time spent pending so far."""
    started_ms: MarketTimeMs | None
    """Start of the current run."""
    changed_ms: MarketTimeMs
    needed_macc: Macc
    available_macc: Macc
    cycle: Number | None = None
    """By whose quotas and prices that was said, and has not changed since; null while it does not
    wait."""

    @property
    def short_by_macc(self) -> int:
        """What it lacks of what it needs, while it waits."""
        return max(0, self.needed_macc - self.available_macc) if self.reason else 0

    def record_key(self) -> str:
        """Key ``team/job``."""
        return job_key(self.team, self.job)

    def partition_key(self) -> str:
        """By team."""
        return self.team


class LeaseState(StrEnum):
    """Where a part of a lease stands on its node."""

    ACCEPTED = "accepted"
    """Its devices are free and set aside; it starts when all parts are accepted."""
    RUNNING = "running"
    STUCK = "stuck"
    """It ended, but its devices are not seen to be free."""
    FREED = "freed"


class LeaseOutcome(StrEnum):
    """How a part of a lease came to be freed."""

    NONE = ""
    """It is not freed yet."""
    FINISHED = "finished"
    FAILED = "failed"
    """Its process ended by itself, with an error."""
    VACATED = "vacated"
    START_FAILED = "start_failed"
    REFUSED = "refused"
    """Its devices were not free; the agent never held them for it."""
    LOST = "lost"
    """Its process was gone when the agent looked again."""


class LeaseStatusChanged(Event):
    """An agent says where a part of a lease stands; only ``freed`` frees its devices."""

    TYPE: ClassVar[str] = "walras.lease.status.v1"
    TOPIC: ClassVar[str] = "lease.status"

    lease: Id
    node: Id
    team: Id
    job: Id
    state: Annotated[LeaseState, Field(strict=False)]
    outcome: Annotated[LeaseOutcome, Field(strict=False)]
    remaining_run_ms: DurationMs | None
    at_ms: MarketTimeMs
    exit_code: Annotated[int, Field(strict=True, ge=-255, le=255)] | None = None
    """Of the process, negative: the signal that ended it; null: it did not run, or runs."""
    detail: Text = ""
    """Why it was refused, failed or is stuck."""

    def record_key(self) -> str:
        """Key ``lease/node``."""
        return lease_part_key(self.lease, self.node)

    def partition_key(self) -> str:
        """By node."""
        return self.node


class DrainState(StrEnum):
    """How far the drain of a lease has come on a node; the last three end it (design §5)."""

    WARNED = "warned"
    CHECKPOINTING = "checkpointing"
    WAITING = "waiting"
    """All is saved, or nothing needs to be; it waits for the end of the process."""
    CANCELLING = "cancelling"
    """A part of a gang holds still until all others do, too."""
    TERMINATING = "terminating"
    VERIFYING = "verifying"
    FREED = "freed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class DrainStatusChanged(Event):
    """How far the drain of a lease has come, as its agent says."""

    TYPE: ClassVar[str] = "walras.drain.status.v1"
    TOPIC: ClassVar[str] = "drain.status"

    session: Id
    lease: Id
    node: Id
    team: Id
    pool: Id
    job: Id
    state: Annotated[DrainState, Field(strict=False)]
    outcome: Text
    """Once failed: ``agent_lost`` or ``device_not_freed``; ``cancel_rejected`` where a cancel came
    too late; ``forced`` where SIGKILL was needed; empty otherwise."""
    warned_ms: MarketTimeMs
    at_ms: MarketTimeMs
    blockers: Annotated[tuple[Text, ...], Field(max_length=16, strict=False)] = ()
    """What it waits for: said again at least every 10 s."""

    def record_key(self) -> str:
        """Key: the session and the node."""
        return f"{self.session}/{self.node}"

    def partition_key(self) -> str:
        """By team."""
        return self.team


class UsageMetered(Event):
    """One half-open interval ``[start_ms, end_ms)`` in which a lease part held devices.

    Or one behind its end that its start pays for: then ``running_ms`` is 0 and it is billable.
    ``running_ms`` and ``busy_ms`` say what became of the time held; null: not measured. They never
    decide whether and at what price it is charged, nor whether a record repeats another. Figures
    that contradict the interval or each other count as not measured.
    """

    TYPE: ClassVar[str] = "walras.usage.metered.v1"
    TOPIC: ClassVar[str] = "usage"

    lease: Id
    node: Id
    attempt: Count
    seq: Number
    """Dense per (lease, node, attempt), from 0."""
    team: Id
    pool: Id
    job: Id
    market: Id
    quantity_macc: PositiveMacc
    start_ms: MarketTimeMs
    end_ms: MarketTimeMs
    work_class: Annotated[WorkClass, Field(strict=False)]
    billable: bool
    limit_micro: LimitMicro | None
    tariff_ppm: Ppm
    running_ms: DurationMs | None = None
    """How long the job's processes existed, at most the interval."""
    busy_ms: DurationMs | None = None
    """How long they used the devices, on the mean of these; at most ``running_ms``."""

    @field_validator("running_ms", "busy_ms", mode="wrap")
    @classmethod
    def _what_cannot_be_read_was_not_measured(
        cls, value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> int | None:
        # Inside, where bytes are read (mode json), a wrong figure must not cost the charge of the
        # record. The edge, which reads a parsed document, refuses it like any other wrong field.
        try:
            figure: int | None = handler(value)
        except ValidationError:
            if info.mode != "json":
                raise
            return None
        return figure

    @field_validator("end_ms")
    @classmethod
    def _interval_is_not_empty(cls, end_ms: int, info: ValidationInfo) -> int:
        if "start_ms" in info.data and end_ms <= info.data["start_ms"]:
            raise ValueError("must be later than start_ms")
        return end_ms

    @property
    def is_rest_of_start(self) -> bool:
        """Whether its start pays for it behind its end: nothing held devices for it."""
        return self.billable and self.running_ms == 0

    def record_key(self) -> str:
        """Key: the source and its sequence number."""
        return f"{self.lease}/{self.node}/{self.attempt}/{self.seq}"

    def partition_key(self) -> str:
        """By team."""
        return self.team
