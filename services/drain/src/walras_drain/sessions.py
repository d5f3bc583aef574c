"""What happens to drain sessions: one value gives another, and names what is to be done.

Everything here is pure, and no function reads a clock: the model check of the protocol
(``tests/simulation/drains``) runs these functions and no others.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from walras_contracts.drains import SessionState, VacateReason
from walras_drain import parts as of_part
from walras_drain.parts import AGENT_LOST, DEVICE_NOT_FREED, Part, PartEnd, Said
from walras_drain.session import CANNOT_WAIT, Cancel, Reaction, Session, Timeline
from walras_drain.standing_commands import told
from walras_drain.transitions import SAID, TABLE, Effect, SessionEvent, is_ended


def begun(session: Session, timeline: Timeline, now_ms: int, deadline_ms: int) -> Reaction:
    """Begin a pending session."""
    session = replace(session, held_up_by="")
    reaction = react(session, SessionEvent.COMMANDED, now_ms)
    if Effect.COMMAND not in reaction.effects:
        return reaction
    after = replace(
        reaction.session, timeline=timeline, commanded_ms=now_ms, deadline_ms=deadline_ms
    )
    return Reaction(after, reaction.effects)


def heard(session: Session, node: str, said: Said, now_ms: int) -> Reaction:
    """Take what the agent of a node says of this session."""
    gang = session.gang > 1
    return _with_part(
        session, node, now_ms, lambda p: of_part.heard(p, said, gang=gang, now_ms=now_ms)
    )


def freed(session: Session, node: str, at_ms: int, now_ms: int) -> Reaction:
    """Take that the devices of a part are verified free."""
    return _with_part(session, node, now_ms, lambda part: of_part.freed(part, at_ms))


def part_gone(session: Session, node: str, now_ms: int) -> Reaction:
    """Take that placement ended the record of a part."""
    return _with_part(session, node, now_ms, of_part.gone)


def node_lost(session: Session, node: str, now_ms: int) -> Reaction:
    """Take that a node is silent."""
    return _node(session, node, SessionEvent.NODE_LOST, now_ms, lost=True)


def node_back(session: Session, node: str, now_ms: int) -> Reaction:
    """Take that a node speaks again."""
    return _node(session, node, SessionEvent.NODE_BACK, now_ms, lost=False)


def withdrawn(session: Session, now_ms: int) -> Reaction:
    """Take that the lease may stay.

    A session takes one cancel: what was refused is not asked again, and a withdrawal while one is
    open takes back what was asked for in between.
    """
    if session.cancel is Cancel.ASKED:
        return Reaction(replace(session, again=None))
    if session.cancel is Cancel.REFUSED:
        return Reaction(session)
    return _settle(react(session, SessionEvent.WITHDRAWN, now_ms), now_ms)


def asked_again(session: Session, reason: VacateReason, at_ms: int, now_ms: int) -> Reaction:
    """Take another request for a lease that is being drained."""
    reaction = react(session, SessionEvent.ASKED_AGAIN, now_ms)
    after = reaction.session
    if Effect.TAKE_REASON in reaction.effects and reason in CANNOT_WAIT:
        after = replace(after, reason=reason)
    if Effect.REMEMBER in reaction.effects and after.cancel is Cancel.ASKED:
        after = replace(after, again=(reason, at_ms))
    return Reaction(after, reaction.effects)


def deadline_passed(session: Session, silent: Iterable[str], now_ms: int) -> Reaction:
    """End a session whose agents have not said how; ``silent`` names nodes that say nothing."""
    quiet = frozenset(silent)
    before = session
    reaction = react(session, SessionEvent.DEADLINE_PASSED, now_ms)
    if reaction.session.state is before.state:
        return reaction
    lost = any(part.is_open and (part.lost or part.node in quiet) for part in before.parts)
    outcome = AGENT_LOST if lost else DEVICE_NOT_FREED
    return Reaction(replace(reaction.session, outcome=outcome), reaction.effects)


def superseded(session: Session, node: str) -> Session:
    """Return an ended session whose command for a part was overwritten by a later session's."""
    parts = tuple(replace(p, command=None) if p.node == node else p for p in session.parts)
    return replace(session, parts=parts)


def later(session: Session, by_ms: int) -> Session:
    """Return a session whose timers did not run for a while."""
    return replace(
        session,
        waits_from_ms=session.waits_from_ms + by_ms,
        deadline_ms=None if session.deadline_ms is None else session.deadline_ms + by_ms,
    )


def react(session: Session, event: SessionEvent, now_ms: int) -> Reaction:
    """Apply the table to a session: its next state, and the commands that then stand."""
    answer = TABLE[session.state, event]
    after = session
    for effect in answer.effects:
        after = told(after, effect)
    if is_ended(answer.state) and not session.is_ended:
        after = replace(after, ended_ms=now_ms, held_up_by="")
        if event is SessionEvent.SAID_FAILED:
            failed = next(part for part in session.parts if part.end is PartEnd.FAILED)
            after = replace(after, outcome=failed.outcome)
    return Reaction(replace(after, state=answer.state), answer.effects)


def _with_part(
    session: Session, node: str, now_ms: int, change: Callable[[Part], Part]
) -> Reaction:
    before = session.part(node)
    if before is None:
        return Reaction(session)
    after = change(before)
    parts = tuple(after if part is before else part for part in session.parts)
    return _settle(Reaction(replace(session, parts=parts)), now_ms)


def _node(session: Session, node: str, event: SessionEvent, now_ms: int, *, lost: bool) -> Reaction:
    part = session.part(node)
    if part is None or part.lost is lost:
        return Reaction(session)
    reaction = react(session, event, now_ms)
    if Effect.NOTE not in reaction.effects:
        return reaction
    parts = tuple(replace(p, lost=lost) if p is part else p for p in session.parts)
    return _settle(Reaction(replace(reaction.session, parts=parts), reaction.effects), now_ms)


def _settle(reaction: Reaction, now_ms: int) -> Reaction:
    """Let happen to a session what follows from how its parts stand, until nothing does."""
    session, effects = reaction.session, reaction.effects
    while (event := _following(session)) is not None:
        step = react(session, event, now_ms)
        effects += step.effects
        if step.session == session:
            break
        session = step.session
    return Reaction(session, effects)


def _following(session: Session) -> SessionEvent | None:
    """Return the event that the parts of a session make, if any."""
    if session.is_ended:
        return _release(session.parts)
    if session.cancel is Cancel.ASKED and (answer := _answer_to_cancel(session)) is not None:
        return answer
    open_parts = [part for part in session.parts if part.is_open]
    if not open_parts:
        return _end(session.parts)
    if session.state is SessionState.PENDING:
        return None
    least = min(part.rank for part in open_parts)
    state = SessionState(of_part.ORDER[least].value)
    return SAID[state] if _comes_after(state, session.state) else None


def _answer_to_cancel(session: Session) -> SessionEvent | None:
    parts = session.parts
    if len(parts) < session.gang or any(_is_too_far(part, session.gang) for part in parts):
        return SessionEvent.CANCEL_REJECTED
    if session.gang == 1 and parts[0].back:
        return SessionEvent.CANCEL_ACCEPTED
    if session.gang > 1 and all(part.holds for part in parts):
        return SessionEvent.GANG_HOLDS
    return None


def _end(parts: Iterable[Part]) -> SessionEvent:
    ends = {part.end for part in parts}
    if PartEnd.FAILED in ends:
        return SessionEvent.SAID_FAILED
    return SessionEvent.FREED if PartEnd.FREED in ends else SessionEvent.LEASE_GONE


def _comes_after(state: SessionState, other: SessionState) -> bool:
    order = list(SAID)
    return order.index(state) > order.index(other)


def _is_too_far(part: Part, gang: int) -> bool:
    """Whether a part makes a cancel impossible.

    A gang does not wait for a lost node: its parts that hold still would wait for ever.
    """
    return not part.is_open or part.is_committed or (gang > 1 and part.lost)


def _release(parts: Iterable[Part]) -> SessionEvent | None:
    """Return the event by which a command of an ended session is not needed any more."""
    for part in parts:
        if part.command is not None and part.back:
            return SessionEvent.CANCEL_ACCEPTED
        if part.command is not None and part.is_closed:
            return SessionEvent.FREED
    return None
