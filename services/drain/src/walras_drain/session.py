"""A drain session as a value, and the cancel and the timeline that it has."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from walras_contracts.drains import SessionState, VacateReason
from walras_drain.parts import Part, blockers_of
from walras_drain.transitions import Effect, is_ended

CANNOT_WAIT: Final = frozenset(
    {
        VacateReason.CANCELLED,
        VacateReason.LEFT_QUEUE,
        VacateReason.ORDERED,
        VacateReason.BUDGET_EXHAUSTED,
        VacateReason.DEVICE_WITHDRAWN,
        VacateReason.GANG_BROKEN,
    }
)
"""What its owner asked for, what must not cost any more, what cannot go on: the guardrail does not
hold it up."""


class Cancel(StrEnum):
    """Where a cancel stands; a session takes one."""

    NONE = ""
    ASKED = "asked"
    REFUSED = "refused"
    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class Timeline:
    """The links of a drain, in ms (:class:`walras_contracts.drains.DrainCommanded`)."""

    warning_ms: int
    terminate_ms: int
    verify_ms: int
    billing_grace_ms: int


@dataclass(frozen=True, slots=True)
class Session:
    """A drain session.

    ``number`` counts the sessions of the lease from 0; ``gang`` is how many parts it was granted
    with. ``waits_from_ms`` is when it was opened, less the holes in market time. ``held_up_by``
    says why it is pending. ``again`` is what placement asked for while a cancel was open.
    ``commanded_ms``, ``timeline`` and ``deadline_ms`` are None until it begins.
    """

    session: str
    lease: str
    team: str
    pool: str
    job: str
    number: int
    gang: int
    size_macc: int
    reason: VacateReason
    parts: tuple[Part, ...]
    opened_ms: int
    waits_from_ms: int
    state: SessionState = SessionState.PENDING
    cancel: Cancel = Cancel.NONE
    outcome: str = ""
    beyond_budget: bool = False
    held_up_by: str = ""
    timeline: Timeline | None = None
    commanded_ms: int | None = None
    deadline_ms: int | None = None
    again: tuple[VacateReason, int] | None = None
    ended_ms: int | None = None

    @property
    def is_ended(self) -> bool:
        """Whether it has ended."""
        return is_ended(self.state)

    def part(self, node: str) -> Part | None:
        """Return the part on a node."""
        return next((part for part in self.parts if part.node == node), None)

    def blockers(self) -> tuple[str, ...]:
        """Return what it waits for."""
        if self.state is SessionState.PENDING:
            return (self.held_up_by,) if self.held_up_by else ()
        if self.state in (SessionState.FREED, SessionState.CANCELLED):
            return ()
        return blockers_of(self.parts)


@dataclass(frozen=True, slots=True)
class Reaction:
    """A session after something happened, and what is to be done, in order."""

    session: Session
    effects: tuple[Effect, ...] = ()
