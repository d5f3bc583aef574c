"""Drains: who must leave and why, commands to agents, sessions, scores, notices (design §5)."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from walras_contracts.event import Event
from walras_contracts.identifiers import Id, Text, job_key, lease_part_key
from walras_contracts.quantities import Count, DurationMs, Macc, MarketTimeMs, Ppm

Blockers = Annotated[tuple[Text, ...], Field(max_length=16, strict=False)]
"""What a drain waits for, in words that name it."""


class VacateReason(StrEnum):
    """Why a running job is asked to leave."""

    QUOTA_LOST = "quota_lost"
    PRICE_ABOVE_LIMIT = "price_above_limit"
    CANCELLED = "cancelled"
    DEVICE_WITHDRAWN = "device_withdrawn"
    """One of its devices must not be used any more, or is something else now."""
    LEFT_QUEUE = "left_queue"
    BUDGET_EXHAUSTED = "budget_exhausted"
    """Its team may not spend any more, and the grace is over or its quota is gone."""
    MAINTENANCE = "maintenance"
    """Its node is to be emptied."""
    PRESSURE = "pressure"
    """Its market is nearly full, and it runs on what nobody bought."""
    LOW_USE = "low_use"
    """It hardly uses its devices."""
    ORDERED = "ordered"
    """An operator, or its team, ordered it."""
    GANG_BROKEN = "gang_broken"
    """Another part of its gang is gone."""


class VacateRequested(Event):
    """A lease must leave: its quota is gone, its job was withdrawn, or something else asks for it.

    It ends with the lease, or by :class:`VacateWithdrawn`.
    """

    TYPE: ClassVar[str] = "walras.vacate.requested.v1"
    TOPIC: ClassVar[str] = "vacate"

    lease: Id
    job: Id
    team: Id
    reason: Annotated[VacateReason, Field(strict=False)]
    requested_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: the lease."""
        return self.lease

    def partition_key(self) -> str:
        """By team."""
        return self.team


class VacateWithdrawn(Event):
    """A lease may stay after all, if its drain has not gone too far."""

    TYPE: ClassVar[str] = "walras.vacate.withdrawn.v1"
    TOPIC: ClassVar[str] = "vacate"

    lease: Id
    job: Id
    team: Id
    withdrawn_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: the lease."""
        return self.lease

    def partition_key(self) -> str:
        """By team."""
        return self.team


class DrainOrdered(Event):
    """An operator, or a team, orders the drain of a job, or the end of such a drain."""

    TYPE: ClassVar[str] = "walras.drain.ordered.v1"
    TOPIC: ClassVar[str] = "drain.orders"

    order: Id
    team: Id
    job: Id
    cancel: bool = False
    reason: Text
    ordered_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: the order."""
        return self.order

    def partition_key(self) -> str:
        """By team."""
        return self.team


class DrainRequested(Event):
    """The drain service asks placement that a lease leave; placement answers with a vacate.

    ``cancel``: it does not ask any more.
    """

    TYPE: ClassVar[str] = "walras.drain.requested.v1"
    TOPIC: ClassVar[str] = "drain.requests"

    lease: Id
    job: Id
    team: Id
    reason: Annotated[VacateReason, Field(strict=False)]
    cancel: bool
    requested_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: the lease."""
        return self.lease

    def partition_key(self) -> str:
        """By team."""
        return self.team


class DrainCommand(StrEnum):
    """What an agent is told about a drain."""

    DRAIN = "drain"
    CANCEL = "cancel"
    """Go back, unless it is committed to terminating; a part of a gang holds still and says so."""
    CONFIRM = "confirm"
    """All parts of the gang hold still: the cancel is accepted."""
    RESUME = "resume"
    """Another part was too far: go on with the drain."""


class DrainCommanded(Event):
    """The whole timeline of a drain for the agent of one node; the last command counts.

    The agent runs it on its own monotonic clock from when it reads it: the warning, SIGTERM at the
    latest after ``warning_ms``, SIGKILL ``terminate_ms`` later, ``verify_ms`` to see the devices
    free. A tombstone ends the session.
    """

    TYPE: ClassVar[str] = "walras.drain.commanded.v1"
    TOPIC: ClassVar[str] = "drain.commands"

    session: Id
    lease: Id
    node: Id
    team: Id
    pool: Id
    job: Id
    command: Annotated[DrainCommand, Field(strict=False)]
    reason: Annotated[VacateReason, Field(strict=False)]
    commanded_ms: MarketTimeMs
    """Of the command ``drain``; it stays the same in what follows."""
    warning_ms: DurationMs
    terminate_ms: DurationMs
    verify_ms: DurationMs
    deadline_ms: MarketTimeMs
    billing_grace_ms: DurationMs
    """How long after the warning use is still billed."""

    def record_key(self) -> str:
        """Key ``lease/node``."""
        return lease_part_key(self.lease, self.node)

    def partition_key(self) -> str:
        """By node."""
        return self.node


class SessionState(StrEnum):
    """Where a drain session stands; it has ended in the last three."""

    PENDING = "pending"
    """The guardrail does not let it begin yet."""
    WARNED = "warned"
    CHECKPOINTING = "checkpointing"
    WAITING = "waiting"
    TERMINATING = "terminating"
    VERIFYING = "verifying"
    FREED = "freed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class DrainSessionChanged(Event):
    """A drain session as it stands; a tombstone ends it some time after it ended."""

    TYPE: ClassVar[str] = "walras.drain.session.v1"
    TOPIC: ClassVar[str] = "drain.sessions"

    session: Id
    lease: Id
    team: Id
    pool: Id
    job: Id
    nodes: Annotated[tuple[Id, ...], Field(strict=False)]
    size_macc: Macc
    reason: Annotated[VacateReason, Field(strict=False)]
    state: Annotated[SessionState, Field(strict=False)]
    outcome: Text
    """Once failed: ``agent_lost`` or ``device_not_freed``; after a cancel that came too late:
    ``cancel_rejected``; empty otherwise."""
    blockers: Blockers
    beyond_budget: bool
    """It was begun although the disruption budget of its team was used up."""
    opened_ms: MarketTimeMs
    commanded_ms: MarketTimeMs | None
    deadline_ms: MarketTimeMs | None
    changed_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: the session."""
        return self.session

    def partition_key(self) -> str:
        """By team."""
        return self.team


class NodeDrainState(StrEnum):
    """How far the emptying of a node has come."""

    DRAINING = "draining"
    BLOCKED = "blocked"
    """Not all that runs there can be drained, and the node is not urgent."""
    STUCK = "stuck"
    """Beyond its deadline; what is stuck is not charged."""
    DRAINED = "drained"


class NodeDrainChanged(Event):
    """How far the emptying of a node has come; a tombstone: it is not being emptied any more."""

    TYPE: ClassVar[str] = "walras.node.drain.v1"
    TOPIC: ClassVar[str] = "drain.sessions"

    node: Id
    state: Annotated[NodeDrainState, Field(strict=False)]
    leases: Count
    blockers: Blockers
    since_ms: MarketTimeMs
    deadline_ms: MarketTimeMs
    changed_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: ``node/`` and the node."""
        return f"node/{self.node}"

    def partition_key(self) -> str:
        """By node."""
        return self.node


class DrainabilityScored(Event):
    """How well a job leaves when it is told to: 0 not at all, 1,000,000 at once and unharmed."""

    TYPE: ClassVar[str] = "walras.drainability.scored.v1"
    TOPIC: ClassVar[str] = "drain.scores"

    team: Id
    job: Id
    score_ppm: Ppm
    warnings: Count
    answered: Count
    freed_after_ms: DurationMs
    """Median time from warning to freed; 0 before there is one."""
    scored_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key ``team/job``."""
        return job_key(self.team, self.job)

    def partition_key(self) -> str:
        """By team."""
        return self.team


class NoticeKind(StrEnum):
    """What a notice is about."""

    DRAIN_WARNING = "drain_warning"
    DRAIN_ADVISORY = "drain_advisory"
    """A drain is likely; it expires unless it is confirmed by a warning."""
    DRAIN_CANCELLED = "drain_cancelled"
    DRAIN_ENDED = "drain_ended"
    DRAIN_ESCALATED = "drain_escalated"
    NODE_LOST = "node_lost"


class NotificationIssued(Event):
    """A notice to a team, as it goes out by webhook and e-mail."""

    TYPE: ClassVar[str] = "walras.notification.issued.v1"
    TOPIC: ClassVar[str] = "notifications"

    notification: Id
    kind: Annotated[NoticeKind, Field(strict=False)]
    team: Id
    job: Id | None
    lease: Id | None
    session: Id | None
    reason: Text
    text: Text
    deadline_ms: MarketTimeMs | None
    expires_ms: MarketTimeMs | None
    issued_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: the notification."""
        return self.notification

    def partition_key(self) -> str:
        """By team."""
        return self.team
