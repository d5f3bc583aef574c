"""What the agent tells of a part, as events."""

from collections.abc import Mapping, Sequence
from typing import Final

from walras_contracts.identifiers import recorded
from walras_contracts.work import DrainState, DrainStatusChanged, LeaseStatusChanged
from walras_node_agent.agent.held_part import HeldPart
from walras_node_agent.part_life import TellDrain, TellLease

TEXT_MOST: Final = 500
BLOCKERS_MOST: Final = 16
EXIT_CODE_MOST: Final = 255
_WAITS_FOR: Final[Mapping[DrainState, str]] = {
    DrainState.WARNED: "the job to answer its warning",
    DrainState.CHECKPOINTING: "the job to save",
    DrainState.WAITING: "the job to end",
    DrainState.CANCELLING: "the other parts of the gang",
    DrainState.TERMINATING: "the job to end after SIGTERM",
    DrainState.VERIFYING: "the devices to be free",
    DrainState.FAILED: "the devices to be free",
}


def lease_status(
    part: HeldPart, told: TellLease, now_ms: int, offset_ms: int
) -> LeaseStatusChanged:
    """Return where a lease stands on this node."""
    code = told.exit_code
    return LeaseStatusChanged(
        lease=part.grant.lease,
        node=part.grant.node,
        team=part.grant.team,
        job=part.grant.job,
        state=told.state,
        outcome=told.outcome,
        remaining_run_ms=part.remaining_run_ms(),
        at_ms=now_ms + offset_ms,
        exit_code=None if code is None else max(-EXIT_CODE_MOST, min(EXIT_CODE_MOST, code)),
        detail=recorded(told.detail, TEXT_MOST),
    )


def drain_status(
    part: HeldPart, told: TellDrain, now_ms: int, offset_ms: int, blockers: Sequence[str]
) -> DrainStatusChanged:
    """Return where a drain stands on this node, and what it waits for."""
    general = _WAITS_FOR.get(told.state)
    waits_for = [] if general is None else [general, *blockers]
    warned_ms = told.warned_ms + offset_ms
    return DrainStatusChanged(
        session=told.session,
        lease=part.grant.lease,
        node=part.grant.node,
        team=part.grant.team,
        pool=part.grant.pool,
        job=part.grant.job,
        state=told.state,
        outcome=told.outcome,
        warned_ms=warned_ms,
        at_ms=max(warned_ms, now_ms + offset_ms),
        blockers=tuple(recorded(each, TEXT_MOST) for each in waits_for[:BLOCKERS_MOST]),
    )
