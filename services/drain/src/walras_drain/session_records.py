"""Sessions as records: of the own state, on ``drain.sessions``, and as commands to agents."""

import json
from typing import Any

from walras_contracts.drains import (
    DrainCommand,
    DrainCommanded,
    DrainSessionChanged,
    SessionState,
    VacateReason,
)
from walras_contracts.work import DrainState
from walras_drain.parts import Part, PartEnd
from walras_drain.session import Cancel, Session, Timeline
from walras_runtime.errors import InvariantBrokenError


def shown(session: Session, now_ms: int) -> DrainSessionChanged:
    """Return a session as it is published at a market time."""
    return DrainSessionChanged(
        session=session.session,
        lease=session.lease,
        team=session.team,
        pool=session.pool,
        job=session.job,
        nodes=tuple(part.node for part in session.parts),
        size_macc=session.size_macc,
        reason=session.reason,
        state=session.state,
        outcome=session.outcome,
        blockers=session.blockers(),
        beyond_budget=session.beyond_budget,
        opened_ms=session.opened_ms,
        commanded_ms=session.commanded_ms,
        deadline_ms=session.deadline_ms,
        changed_ms=now_ms,
    )


def looks_the_same(one: Session, other: Session) -> bool:
    """Whether two states of one session are published alike, but for the time."""
    return (
        one.state is other.state
        and one.reason is other.reason
        and one.outcome == other.outcome
        and one.beyond_budget is other.beyond_budget
        and one.deadline_ms == other.deadline_ms
        and one.blockers() == other.blockers()
    )


def command(session: Session, part: Part, now_ms: int) -> DrainCommanded:
    """Return the command that stands for a part.

    A session that was called off before it began has no timeline; its command carries none.

    Raises
    ------
    InvariantBrokenError
        None stands, or it is to drain and there is no timeline.
    """
    timeline, commanded_ms, deadline_ms = (
        session.timeline,
        session.commanded_ms,
        session.deadline_ms,
    )
    if part.command is None or (timeline is None and part.command is DrainCommand.DRAIN):
        raise InvariantBrokenError(f"session {session.session}: {part.node} is told nothing")
    if timeline is None or commanded_ms is None or deadline_ms is None:
        timeline, commanded_ms, deadline_ms = Timeline(0, 0, 0, 0), now_ms, now_ms
    return DrainCommanded(
        session=session.session,
        lease=session.lease,
        node=part.node,
        team=session.team,
        pool=session.pool,
        job=session.job,
        command=part.command,
        reason=session.reason,
        commanded_ms=commanded_ms,
        warning_ms=timeline.warning_ms,
        terminate_ms=timeline.terminate_ms,
        verify_ms=timeline.verify_ms,
        deadline_ms=deadline_ms,
        billing_grace_ms=timeline.billing_grace_ms,
    )


def dump(session: Session) -> bytes:
    """Return a session as one record of the own state."""
    timeline = session.timeline
    fields = [
        *(session.lease, session.team, session.pool, session.job),
        *(session.number, session.gang, session.size_macc, session.reason.value),
        [_dump_part(part) for part in session.parts],
        *(session.opened_ms, session.waits_from_ms, session.state.value, session.cancel.value),
        *(session.outcome, session.beyond_budget, session.held_up_by),
        None
        if timeline is None
        else [
            timeline.warning_ms,
            timeline.terminate_ms,
            timeline.verify_ms,
            timeline.billing_grace_ms,
        ],
        *(session.commanded_ms, session.deadline_ms),
        None if session.again is None else [session.again[0].value, session.again[1]],
        session.ended_ms,
    ]
    return json.dumps(fields, separators=(",", ":")).encode()


def parse(name: str, value: bytes) -> Session:
    """Read a session's record of the own state."""
    fields: list[Any] = json.loads(value)
    lease, team, pool, job, number, gang, size_macc, reason, parts, *rest = fields
    opened_ms, waits_from_ms, state, cancel, outcome, beyond_budget, held_up_by, *more = rest
    timeline, *times = more
    commanded_ms, deadline_ms, again, ended_ms = times
    return Session(
        name,
        lease,
        team,
        pool,
        job,
        number,
        gang,
        size_macc,
        VacateReason(reason),
        tuple(_parse_part(part) for part in parts),
        opened_ms,
        waits_from_ms,
        SessionState(state),
        Cancel(cancel),
        outcome,
        beyond_budget,
        held_up_by,
        None if timeline is None else Timeline(*timeline),
        commanded_ms,
        deadline_ms,
        None if again is None else (VacateReason(again[0]), again[1]),
        ended_ms,
    )


def _dump_part(part: Part) -> list[object]:
    return [
        part.node,
        None if part.reached is None else part.reached.value,
        *(part.holds, part.back, part.rejected, part.end.value, part.outcome),
        *(part.lost, part.saved, part.forced),
        None if part.command is None else part.command.value,
        *(part.blockers, part.heard_ms, part.warned_ms, part.free_ms),
    ]


def _parse_part(fields: list[Any]) -> Part:
    node, reached, holds, back, rejected, end, outcome, *rest = fields
    lost, saved, forced, command_word, blockers, *times = rest
    return Part(
        node,
        None if reached is None else DrainState(reached),
        holds,
        back,
        rejected,
        PartEnd(end),
        outcome,
        lost,
        saved,
        forced,
        None if command_word is None else DrainCommand(command_word),
        tuple(blockers),
        *times,
    )
