"""What time does to sessions: they begin when the guardrail lets them, and end by their deadline.

Nothing here costs more than a comparison per open session where nothing is due.
"""

from dataclasses import replace

from walras_contracts.accounts import DrainTerms
from walras_contracts.drains import (
    DrainabilityScored,
    DrainSessionChanged,
    SessionState,
    VacateReason,
)
from walras_drain import guardrail, sessions
from walras_drain.clock import rounded_up_ms
from walras_drain.core import carry_out
from walras_drain.histories import PREFIX as SCORE
from walras_drain.maintenance import PREFIX as NODE
from walras_drain.session import CANNOT_WAIT, Reaction, Session, Timeline
from walras_drain.session_records import shown
from walras_drain.state import SESSION, DrainServiceState
from walras_drain.writing import Writer


def set_later(state: DrainServiceState, writer: Writer, by_ms: int) -> None:
    """Set all timers that run later by a hole in market time."""
    for session in state.sessions.open_sessions():
        carry_out(state, writer, session, Reaction(sessions.later(session, by_ms)))
    for node in sorted(state.emptying):
        later = state.emptying[node] = state.emptying[node].later(by_ms)
        writer.keep(NODE + node, later.dump())
        writer.tell(later.shown(node, writer.now_ms))
    state.low_use.begin_anew()


def begin_what_may(state: DrainServiceState, writer: Writer) -> None:
    """Begin the pending sessions that the guardrail lets begin, the oldest first."""
    pending = [s for s in state.sessions.open_sessions() if s.state is SessionState.PENDING]
    if not pending:
        return
    terms = state.terms.in_force(writer.now_ms)
    waiting_teams: dict[str, None] = {}
    for session in pending:
        verdict = guardrail.verdict(
            terms=terms,
            now_ms=writer.now_ms,
            team=session.team,
            job=session.job,
            size_macc=session.size_macc,
            held_macc=state.leases.team_macc.get(session.team, 0),
            begun=state.disruptions.of_team(session.team),
            waited_ms=writer.now_ms - session.waits_from_ms,
            may_wait=may_wait(state, session),
            behind=session.team in waiting_teams,
        )
        if verdict.begins:
            _begin(state, writer, session, terms, beyond_budget=verdict.beyond_budget)
            continue
        if verdict.by_budget:
            waiting_teams[session.team] = None
        held_up = replace(session, held_up_by=verdict.held_up_by)
        carry_out(state, writer, session, Reaction(held_up))


def end_what_is_over(state: DrainServiceState, writer: Writer) -> None:
    """End the sessions whose deadline has passed without their agents having said how.

    A deadline is a barrier where the links are whole intervals, and what an agent says just before
    it is read at the next one: that one ends the session, 5 s after the deadline.
    """
    for session in state.sessions.open_sessions():
        if session.deadline_ms is None or writer.now_ms <= session.deadline_ms:
            continue
        silent = [part.node for part in session.parts if _is_silent(state, session, part.node)]
        carry_out(state, writer, session, sessions.deadline_passed(session, silent, writer.now_ms))


def tell_progress(state: DrainServiceState, writer: Writer) -> None:
    """Publish each open session every 10 s, whether its agent says anything or not (R15)."""
    for session in state.sessions.open_sessions():
        if state.clock.is_progress_due(session.opened_ms):
            writer.tell(shown(session, writer.now_ms))


def forget(state: DrainServiceState, writer: Writer) -> None:
    """Forget what ended long ago."""
    now_ms = writer.now_ms
    for session in state.sessions.take_forgotten(now_ms):
        writer.keep(SESSION + session.session, None)
        writer.end(DrainSessionChanged, session.session, session.team)
    for job in state.histories.take_forgotten(now_ms):
        writer.keep(SCORE + job, None)
        writer.end(DrainabilityScored, job, job.partition("/")[0])
    terms = state.terms.in_force(now_ms)
    for key in state.disruptions.expire(guardrail.forgotten_before_ms(terms, now_ms)):
        writer.keep(key, None)


def may_wait(state: DrainServiceState, session: Session) -> bool:
    """Whether the guardrail may hold a session up: not what cannot wait, nor what is broken."""
    if session.reason in CANNOT_WAIT:
        return False
    nodes = [part.node for part in session.parts]
    if session.reason is VacateReason.MAINTENANCE and any(map(state.nodes.is_urgent, nodes)):
        return False
    lease = state.leases.leases.get(session.lease)
    return lease is None or not state.is_broken(lease)


def deadline_ms(terms: DrainTerms, now_ms: int, interval_ms: int) -> int:
    """Return the deadline of a drain that begins now: each of its links ends at a barrier."""
    links_ms = (terms.warning_ms, terms.terminate_ms, terms.verify_ms)
    return now_ms + sum(rounded_up_ms(link_ms, interval_ms) for link_ms in links_ms)


def _begin(
    state: DrainServiceState,
    writer: Writer,
    session: Session,
    terms: DrainTerms,
    *,
    beyond_budget: bool,
) -> None:
    timeline = Timeline(
        terms.warning_ms, terms.terminate_ms, terms.verify_ms, terms.billing_grace_ms
    )
    until_ms = deadline_ms(terms, writer.now_ms, state.clock.interval_ms)
    marked = replace(session, beyond_budget=beyond_budget)
    carry_out(state, writer, session, sessions.begun(marked, timeline, writer.now_ms, until_ms))


def _is_silent(state: DrainServiceState, session: Session, node: str) -> bool:
    part = session.part(node)
    if part is None or not part.is_open:
        return False
    if part.heard_ms is None or state.nodes.is_lost(node):
        return True
    return state.clock.now_ms - part.heard_ms > state.clock.silent_ms()
