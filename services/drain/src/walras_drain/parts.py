"""A part of a drain session: what the agent of one node said of it.

What agents say may be said again, and late; a part only goes forward.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from walras_contracts.drains import DrainCommand
from walras_contracts.identifiers import recorded
from walras_contracts.work import DrainState, DrainStatusChanged

CANCEL_REJECTED: Final = "cancel_rejected"
FORCED: Final = "forced"
DEVICE_NOT_FREED: Final = "device_not_freed"
AGENT_LOST: Final = "agent_lost"
BLOCKERS_MAX: Final = 16
TEXT_MAX: Final = 500

ORDER: Final = (
    DrainState.WARNED,
    DrainState.CHECKPOINTING,
    DrainState.WAITING,
    DrainState.TERMINATING,
    DrainState.VERIFYING,
)
_RANK: Final = {state: rank for rank, state in enumerate(ORDER)}
_RANK_COMMITTED: Final = _RANK[DrainState.TERMINATING]


class PartEnd(StrEnum):
    """How a part ended."""

    OPEN = ""
    FREED = "freed"
    """Its agent said so of the lease: its devices are verified free."""
    GONE = "gone"
    """Placement ended its record without that: its node was fenced."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Said:
    """What an agent says of the drain of its part."""

    state: DrainState
    outcome: str
    warned_ms: int
    blockers: tuple[str, ...] = ()

    @staticmethod
    def of(status: DrainStatusChanged) -> "Said":
        """Return what an event says."""
        return Said(status.state, status.outcome, status.warned_ms, status.blockers)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a session.

    ``reached`` is the furthest state that its agent said, None before it said any. ``holds``: it
    holds still for a cancel; ``back``: it runs again. ``saved``: it said that all is saved before
    it was terminated. ``command`` is the one that stands on the log. ``free_ms`` is when its
    devices were free, by its agent's clock, as ``warned_ms`` is.
    """

    node: str
    reached: DrainState | None = None
    holds: bool = False
    back: bool = False
    rejected: bool = False
    end: PartEnd = PartEnd.OPEN
    outcome: str = ""
    lost: bool = False
    saved: bool = False
    forced: bool = False
    command: DrainCommand | None = None
    blockers: tuple[str, ...] = ()
    heard_ms: int | None = None
    warned_ms: int | None = None
    free_ms: int | None = None

    @property
    def rank(self) -> int:
        """How far it has come; 0 where its agent said nothing yet."""
        return 0 if self.reached is None else _RANK[self.reached]

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.end is PartEnd.OPEN

    @property
    def is_committed(self) -> bool:
        """Whether it cannot go back any more."""
        return self.rejected or self.rank >= _RANK_COMMITTED

    @property
    def is_closed(self) -> bool:
        """Whether it holds no devices any more."""
        return self.end in (PartEnd.FREED, PartEnd.GONE)


def heard(part: Part, said: Said, *, gang: bool, now_ms: int) -> Part:
    """Return a part after its agent said something of its drain.

    Only ``lease.status`` frees devices: an agent that says here that they are free has come as far
    as ``verifying``.

    Parameters
    ----------
    part
        As it stands.
    said
        The statement.
    gang
        Whether there are other parts; a part alone goes back by itself when it is asked to.
    now_ms
        Market time of the step.
    """
    if part.is_closed:
        return part
    part = replace(part, heard_ms=now_ms, blockers=said.blockers)
    if part.warned_ms is None:
        part = replace(part, warned_ms=said.warned_ms)
    if said.outcome == CANCEL_REJECTED:
        part = replace(part, rejected=True)
    if said.state is DrainState.CANCELLING:
        return replace(part, holds=True)
    if said.state is DrainState.CANCELLED:
        if gang and part.command is not DrainCommand.CONFIRM:
            return replace(part, holds=True)
        return replace(part, back=True)
    if said.state is DrainState.FAILED:
        return replace(part, end=PartEnd.FAILED, outcome=said.outcome or DEVICE_NOT_FREED)
    state = said.state
    if state is DrainState.FREED:
        state = DrainState.VERIFYING
    if _RANK[state] > part.rank or part.reached is None:
        saved = part.saved or state is DrainState.WAITING
        if said.state is DrainState.FREED and not part.is_committed:
            saved = True
        part = replace(part, reached=state, saved=saved)
    return replace(part, forced=part.forced or said.outcome == FORCED)


def freed(part: Part, at_ms: int) -> Part:
    """Return a part whose devices its agent has seen to be free, at a time of the agent's clock."""
    if part.is_closed:
        return part
    saved = part.saved or not part.is_committed
    return replace(part, end=PartEnd.FREED, saved=saved, free_ms=at_ms, blockers=())


def gone(part: Part) -> Part:
    """Return a part whose record was ended by placement."""
    return part if part.is_closed else replace(part, end=PartEnd.GONE, blockers=())


def blockers_of(parts: Iterable[Part]) -> tuple[str, ...]:
    """Return what the parts of a session that has begun wait for, each with its node."""
    found: list[str] = []
    for part in parts:
        if part.is_closed or part.back:
            continue
        if part.lost:
            found.append(f"{part.node}: its agent is silent")
        elif part.reached is None and part.is_open and not part.holds:
            found.append(f"{part.node}: its agent has not answered yet")
        if part.holds:
            found.append(f"{part.node}: holds still until all parts of its gang do")
        found += [f"{part.node}: {blocker}" for blocker in part.blockers]
        if part.end is PartEnd.FAILED and not part.blockers:
            found.append(f"{part.node}: {part.outcome}")
    return tuple(recorded(blocker, TEXT_MAX) for blocker in found[:BLOCKERS_MAX])
