"""Sessions in the state: opened, changed, begun and ended, with all that is written about it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from walras_contracts.drains import (
    DrainabilityScored,
    DrainCommanded,
    SessionState,
    VacateReason,
    VacateRequested,
    VacateWithdrawn,
)
from walras_contracts.identifiers import digest_of, job_key, lease_part_key
from walras_contracts.work import DrainStatusChanged, LeaseState, LeaseStatusChanged
from walras_drain import notices, sessions
from walras_drain.guardrail import Begun
from walras_drain.histories import PREFIX as SCORE
from walras_drain.lease_table import Holding
from walras_drain.parts import Part, PartEnd, Said
from walras_drain.scores import History, chain_holds, score_ppm
from walras_drain.session import Reaction, Session
from walras_drain.session_records import command, dump, looks_the_same, shown
from walras_drain.state import SESSION, STUCK, VACATE, DrainServiceState
from walras_drain.transitions import Effect
from walras_drain.writing import Writer
from walras_runtime.errors import InvariantBrokenError


def carry_out(
    state: DrainServiceState, writer: Writer, before: Session | None, reaction: Reaction
) -> None:
    """Keep a session after something happened to it, and write what follows from it."""
    after = reaction.session
    if after != before:
        state.sessions.put(after)
        writer.keep(SESSION + after.session, dump(after))
        _tell_agents(state, writer, before, after)
        if before is None or not looks_the_same(before, after):
            writer.tell(shown(after, writer.now_ms))
    for effect in reaction.effects:
        todo = _TO_DO.get(effect)
        if todo is not None:
            todo(state, writer, after)


def note_vacate(
    state: DrainServiceState, writer: Writer, vacate: VacateRequested, *, complete: bool
) -> None:
    """Take that a lease must leave.

    Parameters
    ----------
    state, writer
        Changed.
    vacate
        What placement says.
    complete
        Whether all leases that were granted by now have been read. One that is not there then has
        ended; else the request waits for it, and for all of its parts.
    """
    session = state.sessions.open_of_lease(vacate.lease)
    if session is not None:
        reaction = sessions.asked_again(session, vacate.reason, vacate.requested_ms, writer.now_ms)
        carry_out(state, writer, session, reaction)
        return
    lease = state.leases.leases.get(vacate.lease)
    if not complete and (lease is None or len(lease.sizes_macc) < lease.gang):
        state.unmatched[vacate.lease] = vacate
        writer.keep(VACATE + vacate.lease, vacate.payload())
        return
    forget_unmatched(state, writer, vacate.lease)
    if lease is not None:
        _open(state, writer, lease, vacate.reason)


def forget_unmatched(state: DrainServiceState, writer: Writer, lease: str) -> None:
    """Forget a request whose lease was waited for."""
    if state.unmatched.pop(lease, None) is not None:
        writer.keep(VACATE + lease, None)


def note_withdrawal(state: DrainServiceState, writer: Writer, withdrawal: VacateWithdrawn) -> None:
    """Take that a lease may stay."""
    forget_unmatched(state, writer, withdrawal.lease)
    session = state.sessions.open_of_lease(withdrawal.lease)
    if session is not None:
        carry_out(state, writer, session, sessions.withdrawn(session, writer.now_ms))


def note_drain_status(state: DrainServiceState, writer: Writer, status: DrainStatusChanged) -> None:
    """Take what an agent says of a session; of one that is not known it means nothing."""
    session = state.sessions.get(status.session)
    if session is not None:
        reaction = sessions.heard(session, status.node, Said.of(status), writer.now_ms)
        carry_out(state, writer, session, reaction)


def note_lease_status(state: DrainServiceState, writer: Writer, status: LeaseStatusChanged) -> None:
    """Take what an agent says of a part of a lease."""
    part = (status.lease, status.node)
    if (status.state is LeaseState.STUCK) != (part in state.stuck):
        if status.state is LeaseState.STUCK:
            state.stuck[part] = None
            writer.keep(STUCK + lease_part_key(*part), b"1")
        else:
            forget_stuck(state, writer, *part)
    if status.state is not LeaseState.FREED:
        return
    for session in state.sessions.all_of_part(*part):
        reaction = sessions.freed(session, status.node, status.at_ms, writer.now_ms)
        carry_out(state, writer, session, reaction)


def forget_stuck(state: DrainServiceState, writer: Writer, lease: str, node: str) -> None:
    """Forget that a part is stuck."""
    if (lease, node) in state.stuck:
        del state.stuck[lease, node]
        writer.keep(STUCK + lease_part_key(lease, node), None)


def tell_score(state: DrainServiceState, writer: Writer, lease: Holding) -> None:
    """Publish the score of a lease's job."""
    history = state.histories.of_job(lease.job_key)
    terms = state.terms.in_force(writer.now_ms)
    chain = chain_holds(lease.run, terms)
    writer.tell(
        DrainabilityScored(
            team=lease.team,
            job=lease.job,
            score_ppm=score_ppm(lease.drainability, history, terms, chain=chain),
            warnings=history.warnings,
            answered=history.answered,
            freed_after_ms=history.median_ms(),
            scored_ms=writer.now_ms,
        )
    )


def note_lease_new(state: DrainServiceState, writer: Writer, lease: Holding) -> None:
    """Take that a job was given a lease: its score counts from now on."""
    if lease.job_key in state.histories:
        busy = state.histories.of_job(lease.job_key).idle(None)
        keep_history(state, writer, lease.job_key, busy)
    tell_score(state, writer, lease)


def note_lease_gone(state: DrainServiceState, writer: Writer, lease: Holding) -> None:
    """Take that a lease ended. What was seen of a job that holds none any more is kept a while."""
    job = lease.job_key
    if job in state.leases.by_job:
        return
    if job in state.histories:
        idle = state.histories.of_job(job).idle(writer.now_ms)
        keep_history(state, writer, job, idle)
    else:
        writer.end(DrainabilityScored, job, lease.team)


def keep_history(state: DrainServiceState, writer: Writer, job: str, history: History) -> None:
    """Set what was seen of a job's drains."""
    state.histories.put(job, history)
    writer.keep(SCORE + job, history.dump())


def _open(state: DrainServiceState, writer: Writer, lease: Holding, reason: VacateReason) -> None:
    last = state.sessions.of_lease(lease.lease)
    number = 0 if last is None else last.number + 1
    now_ms = writer.now_ms
    session = Session(
        session=digest_of("drain", lease.lease, str(now_ms), str(number)),
        lease=lease.lease,
        team=lease.team,
        pool=lease.pool,
        job=lease.job,
        number=number,
        gang=lease.gang,
        size_macc=lease.size_macc,
        reason=reason,
        parts=tuple(Part(node, lost=state.nodes.is_lost(node)) for node in lease.nodes),
        opened_ms=now_ms,
        waits_from_ms=now_ms,
    )
    if state.sessions.get(session.session) is not None:
        raise InvariantBrokenError(f"session {session.session} of {lease.lease} exists already")
    carry_out(state, writer, None, Reaction(session))


def _tell_agents(
    state: DrainServiceState, writer: Writer, before: Session | None, after: Session
) -> None:
    """Write the commands that changed; a new one takes the place of those of older sessions."""
    for part in after.parts:
        known = None if before is None else before.part(part.node)
        if part.command is (None if known is None else known.command):
            continue
        if part.command is None:
            key = lease_part_key(after.lease, part.node)
            writer.end(DrainCommanded, key, part.node)
            continue
        for older in state.sessions.all_of_part(after.lease, part.node):
            held = older.part(part.node)
            if older.session != after.session and held is not None and held.command is not None:
                forgotten = sessions.superseded(older, part.node)
                state.sessions.put(forgotten)
                writer.keep(SESSION + older.session, dump(forgotten))
        writer.tell(command(after, part, writer.now_ms))


def _count(state: DrainServiceState, writer: Writer, session: Session) -> None:
    begun = Begun(writer.now_ms, session.size_macc, session.job, session.session)
    writer.keep(*state.disruptions.add(session.team, begun))
    _change_history(state, writer, session, History.after_warning)


def _score(state: DrainServiceState, writer: Writer, session: Session) -> None:
    if session.state is SessionState.CANCELLED:
        _change_history(state, writer, session, History.after_cancel)
        return
    ends = [part for part in session.parts if part.end is PartEnd.FREED]
    good = session.state is SessionState.FREED and len(ends) == len(session.parts)
    answered = good and all(part.saved and not part.forced for part in ends)
    duration_ms = max(_left_after_ms(session, part) for part in ends) if good else None
    _change_history(
        state, writer, session, lambda history: history.after_outcome(answered, duration_ms)
    )


def _left_after_ms(session: Session, part: Part) -> int:
    """Return how long a part took, on its agent's clock where that said when it warned."""
    from_ms = session.commanded_ms if part.warned_ms is None else part.warned_ms
    return max(0, (part.free_ms or 0) - (from_ms or 0))


def _change_history(
    state: DrainServiceState,
    writer: Writer,
    session: Session,
    change: Callable[[History], History],
) -> None:
    job = job_key(session.team, session.job)
    keep_history(state, writer, job, change(state.histories.of_job(job)))
    lease = state.leases.leases.get(session.lease) or state.leases.gone.get(session.lease)
    if lease is not None:
        tell_score(state, writer, lease)


def _reopen(state: DrainServiceState, writer: Writer, session: Session) -> None:
    lease = state.leases.leases.get(session.lease)
    if session.again is None:
        return
    done = replace(session, again=None)
    state.sessions.put(done)
    writer.keep(SESSION + session.session, dump(done))
    if lease is not None:
        _open(state, writer, lease, session.again[0])


_Todo = Callable[[DrainServiceState, Writer, Session], None]
_TO_DO: Final[Mapping[Effect, _Todo]] = {
    Effect.COUNT: _count,
    Effect.SCORE: _score,
    Effect.WARN: lambda _, writer, s: writer.tell_once(notices.warning(s, writer.now_ms)),
    Effect.TELL_CANCELLED: lambda _, writer, s: writer.tell_once(
        notices.cancelled(s, writer.now_ms)
    ),
    Effect.TELL_ENDED: lambda _, writer, s: writer.tell_once(notices.ended(s, writer.now_ms)),
    Effect.REOPEN: _reopen,
}
"""What an effect does beside the commands, which stand in the session itself."""
