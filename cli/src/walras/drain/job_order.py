"""The order that a job be drained, or that this be ended; and what becomes of it."""

from dataclasses import dataclass
from typing import Final

from walras.drain.progress import End, Outcome
from walras.jobs.job_views import ENDED_SESSIONS
from walras.jobs.words import session_words
from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.folding import latest, market_now_ms
from walras.jobs_log.items import Item, Log, Place, Watch
from walras_contracts.demand import JobQueued
from walras_contracts.drains import (
    DrainOrdered,
    DrainSessionChanged,
    SessionState,
    VacateReason,
)
from walras_contracts.identifiers import digest_of, job_key
from walras_contracts.wait_reasons import ENDED_STATES
from walras_contracts.work import JobStatusChanged

TOPICS: Final = ("queue", "job.status", "drain.orders", "drain.sessions")
ANSWER_BARRIERS: Final = 4
"""After so many steps an order has gone to placement and back: without a session there is none."""


@dataclass(frozen=True, slots=True)
class Target:
    """A job that runs: its lease, and its session where one is under way."""

    team: str
    job: str
    lease: str
    session: DrainSessionChanged | None

    @property
    def key(self) -> str:
        """Record key ``team/job``."""
        return job_key(self.team, self.job)


def find_target(log: Log, team: str, job: str, *, cancel: bool) -> Target:
    """Return the job that an order can speak of.

    Raises
    ------
    JobsLogError
        There is no such job, it does not run, or, to cancel, nobody ordered its drain.
    """
    key = job_key(team, job)
    queued = latest(log, JobQueued, team).get(key)
    status = latest(log, JobStatusChanged, team).get(key)
    sessions = latest(log, DrainSessionChanged)
    if status is None and queued is None:
        raise JobsLogError(
            Fault.UNKNOWN_JOB, f"team {team} has no job {job}", f"`walras jobs {team}` lists them"
        )
    if status is not None and status.state in ENDED_STATES:
        raise JobsLogError(Fault.JOB_ENDED, f"job {key} is {status.state.value}: nothing runs")
    if status is None or status.lease is None:
        raise JobsLogError(
            Fault.NOT_RUNNING,
            f"job {key} does not run: there is nothing to drain",
            f"`walras cancel {key}` withdraws it",
        )
    session = next(
        (
            each
            for each in sessions.values()
            if each.lease == status.lease and each.state not in ENDED_SESSIONS
        ),
        None,
    )
    target = Target(team, job, status.lease, session)
    if cancel:
        _check_cancel(log, target, status)
    return target


def order_of(
    log: Log, target: Target, *, cancel: bool, reason: str, key: str | None
) -> DrainOrdered:
    """Return the order, at the market's time.

    Parameters
    ----------
    log
        Gives the time.
    target
        What is ordered about.
    cancel
        That its drain be ended.
    reason
        Why, for people.
    key
        What the order's id is made of: the same key gives the same order, which counts once.
        None: one for each lease and step.

    Raises
    ------
    JobsLogError
        The log cannot be read.
    """
    now_ms = market_now_ms(log, DrainOrdered.TOPIC, target.team)
    kind = "cancel" if cancel else "drain"
    named = (target.lease, str(now_ms)) if key is None else (key,)
    return DrainOrdered(
        order=f"order-{digest_of(kind, target.team, target.job, *named)}",
        team=target.team,
        job=target.job,
        cancel=cancel,
        reason=reason,
        ordered_ms=now_ms,
    )


def watches_of(target: Target) -> tuple[Watch, ...]:
    """Return what tells what becomes of an order."""
    return (
        Watch(DrainOrdered.TOPIC, (), target.team),
        Watch(DrainSessionChanged.TOPIC, (DrainSessionChanged,)),
        Watch(JobStatusChanged.TOPIC, (JobStatusChanged,), target.team),
    )


class OrderWatch:
    """Follows the sessions of a lease behind an order."""

    def __init__(self, target: Target, place: Place, *, cancel: bool) -> None:
        self._target = target
        self._place = place
        self._cancel = cancel
        self._session = target.session
        self._status: JobStatusChanged | None = None
        self._now_ms: int | None = None
        self._barrier: int | None = None
        """The one that ends the order's step."""
        self._decided = -1

    @property
    def session(self) -> DrainSessionChanged | None:
        """The session as it stands."""
        return self._session

    def take(self, item: Item) -> None:
        """Take a record of any of the topics."""
        if item.barrier is not None:
            self._now_ms = item.barrier.market_time_ms
            if item.topic == self._place.topic and self._barrier is None:
                self._barrier = item.barrier.number
            if item.topic == DrainSessionChanged.TOPIC:
                self._decided = max(self._decided, item.barrier.number)
        elif isinstance(item.event, DrainSessionChanged):
            self._take_session(item.event)
        elif isinstance(item.event, JobStatusChanged) and item.key == self._target.key:
            self._status = item.event

    def words(self) -> str:
        """Say how far it is."""
        key = self._target.key
        if self._session is None:
            if self._is_unanswered:
                return f"{key}: no session was opened yet: do drain and placement run?"
            return f"{key}: the order waits for the next step"
        return f"{key}: {session_words(self._session, None)}"

    def end(self) -> End | None:
        """Return how it ended."""
        session = self._session
        if session is not None and session.state in ENDED_SESSIONS:
            return self._end_of(session)
        if session is not None and self._cancel and session.outcome == "cancel_rejected":
            words = "the cancel came too late: the drain goes on"
            return End(Outcome.OTHERWISE, f"{self._target.key}: {words}")
        if session is None and self._has_left:
            state = "" if self._status is None else f": it is {self._status.state.value}"
            outcome = Outcome.OTHERWISE if self._cancel else Outcome.DONE
            return End(outcome, f"{self._target.key}: the run has ended without a drain{state}")
        if session is None and self._cancel and self._is_unanswered:
            return End(Outcome.DONE, f"{self._target.key}: no drain is under way; it runs on")
        return None

    @property
    def _is_unanswered(self) -> bool:
        return self._barrier is not None and self._decided >= self._barrier + ANSWER_BARRIERS

    @property
    def _has_left(self) -> bool:
        return self._status is not None and self._status.lease != self._target.lease

    def _take_session(self, session: DrainSessionChanged) -> None:
        if session.lease != self._target.lease:
            return
        if self._session is None or self._session.opened_ms <= session.opened_ms:
            self._session = session

    def _end_of(self, session: DrainSessionChanged) -> End:
        wanted = SessionState.CANCELLED if self._cancel else SessionState.FREED
        outcome = Outcome.DONE if session.state is wanted else Outcome.OTHERWISE
        words = {
            SessionState.FREED: "its devices are free",
            SessionState.CANCELLED: "the drain was cancelled; it runs on",
            SessionState.FAILED: f"the drain failed ({session.outcome}); its devices stay withheld "
            "until its agent says that they are free, or its node is fenced",
        }[session.state]
        blockers = f"; {'; '.join(session.blockers)}" if session.blockers else ""
        return End(outcome, f"{self._target.key}: {words}{blockers}")


def _check_cancel(log: Log, target: Target, status: JobStatusChanged) -> None:
    """Refuse to cancel what nobody ordered: an order's cancel ends an ordered drain alone."""
    session = target.session
    if session is not None and session.reason is VacateReason.ORDERED:
        return
    orders = [
        item.event
        for item in log.read(DrainOrdered.TOPIC, DrainOrdered, partition_key=target.team)
        if isinstance(item.event, DrainOrdered)
        and (item.event.team, item.event.job) == (target.team, target.job)
    ]
    last = orders[-1] if orders else None
    if last is not None and not last.cancel and last.ordered_ms >= (status.started_ms or 0):
        return
    if session is None:
        raise JobsLogError(
            Fault.NOT_DRAINING,
            f"job {target.key} is {status.state.value}, and nobody ordered that it leave",
        )
    raise JobsLogError(
        Fault.NOT_ORDERED,
        f"job {target.key} leaves because of {session.reason.value}, and not by an order",
        "it stays where its team has the quota for it again; a cancel here changes nothing",
    )
