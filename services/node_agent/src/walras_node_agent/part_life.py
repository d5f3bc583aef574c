"""What is known of one part of a lease on its node, what happens to it, what is done about it.

All times are of one clock that the caller hands in.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommanded
from walras_contracts.work import DrainState, LeaseOutcome, LeaseState
from walras_node_agent.part_table import Effect, PartEvent, PartState

LEAVING: Final = frozenset({PartState.WARNED, PartState.CHECKPOINTING, PartState.WAITING})
"""It was told to leave, and may still be called back."""
OVER: Final = frozenset({PartState.FREED, PartState.REFUSED})
COMMITTED: Final = OVER | {
    *(PartState.TERMINATING, PartState.KILLING, PartState.VERIFYING, PartState.STUCK)
}
"""It cannot be called back any more."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """What a command says of a drain: whose, why, and how long each step may take, in ms."""

    session: str
    reason: str
    warning_ms: int
    terminate_ms: int
    verify_ms: int
    billing_grace_ms: int

    @staticmethod
    def of(command: DrainCommanded) -> "Timeline":
        """Return the timeline of a command."""
        return Timeline(
            command.session,
            command.reason.value,
            command.warning_ms,
            command.terminate_ms,
            command.verify_ms,
            command.billing_grace_ms,
        )


@dataclass(frozen=True, slots=True)
class Happened:
    """An event with what is known of it.

    ``session`` and ``timeline``: of a command or an answer to a warning. ``exit_code``: of the
    process, negative the signal that ended it, None not known. ``outcome``: how it came to its
    end, where whoever tells knows better than the exit code does. ``detail``: why it failed.
    """

    event: PartEvent
    session: str = ""
    timeline: Timeline | None = None
    exit_code: int | None = None
    outcome: LeaseOutcome | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """How long the steps take that no command says anything of, in ms.

    Parameters
    ----------
    leave_ms
        How soon after all is saved SIGTERM is sent to a job of one part that does not end itself.
    terminate_ms, verify_ms
        As in a command: for a part that ends without a drain.
    """

    leave_ms: int
    terminate_ms: int
    verify_ms: int


@dataclass(frozen=True, slots=True)
class Life:
    """A part of a lease; every change makes a new value.

    ``warned_ms`` is when the drain that it is in reached it. ``leave_ms``, ``kill_ms`` and
    ``verify_ms`` are when SIGTERM, SIGKILL and the giving up on its devices are due.
    """

    gang: bool
    drainability: Drainability
    state: PartState = PartState.ACCEPTED
    drain: Timeline | None = None
    """Of the drain that it is in; of the last one where that was cancelled."""
    warned_ms: int | None = None
    leave_ms: int | None = None
    kill_ms: int | None = None
    verify_ms: int | None = None
    cancelled_ms: int | None = None
    """When the last drain was cancelled."""
    saved: bool = False
    """The job said so of the last drain."""
    group_gone: bool = False
    free_reads: int = 0
    forced: bool = False
    """SIGKILL was needed."""
    ended: bool = False
    """Its record in the log is gone."""
    outcome: LeaseOutcome = LeaseOutcome.NONE
    exit_code: int | None = None
    detail: str = ""
    kept: Happened | None = None
    """The last command that came while it was being started."""

    @property
    def draining(self) -> bool:
        """Whether a drain has begun and was not cancelled."""
        return self.warned_ms is not None

    def knows(self, session: str) -> bool:
        """Whether the last drain that it heard of is this one."""
        return self.drain is not None and self.drain.session == session


@lru_cache(16)
def fresh(gang: bool, drainability: Drainability) -> Life:
    """Return a part that was just accepted; there are no more than six."""
    return Life(gang, drainability)


@dataclass(frozen=True, slots=True)
class TellLease:
    """Report where the lease stands on the node."""

    state: LeaseState
    outcome: LeaseOutcome = LeaseOutcome.NONE
    exit_code: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TellDrain:
    """Report where a drain stands; ``warned_ms`` by the caller's clock."""

    session: str
    state: DrainState
    warned_ms: int
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Warn:
    """Warn the job; SIGTERM is due at ``leave_ms``, by the caller's clock."""

    timeline: Timeline
    warned_ms: int
    leave_ms: int


@dataclass(frozen=True, slots=True)
class CallOff:
    """Tell the job that the drain of a session is off."""

    session: str


Deed = TellLease | TellDrain | Warn | CallOff | Effect
"""An effect that needs no words is its name."""
