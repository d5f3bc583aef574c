"""What intake does with each type of event."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from walras_contracts.accounts import AccountsChanged, AccountsRequested
from walras_contracts.demand import (
    DemandRejected,
    JobCancelled,
    JobLimitChanged,
    JobQueued,
    JobSubmitted,
)
from walras_contracts.event import Event
from walras_contracts.identifiers import digest_of
from walras_contracts.rejections import Rejection, RejectionCode
from walras_contracts.wait_reasons import ENDED_STATES
from walras_contracts.work import JobStatusChanged
from walras_intake.core import (
    Repeat,
    judge_cancellation,
    judge_limit_change,
    judge_request,
    judge_submission,
    refused_before,
)
from walras_intake.state import IntakeState, Job
from walras_runtime.records import Output, Record, emit, tombstone


@dataclass(slots=True)
class Work:
    """One step under way: the state it changes and what it has decided so far."""

    state: IntakeState
    partition: int
    market_time_ms: int
    outputs: list[Output] = field(default_factory=list)
    repeats: int = 0

    def write(self, event: Event) -> None:
        """Emit an event to the stage's own partition."""
        self.outputs.append(emit(event, partition=self.partition))

    def refuse(self, record: Record, rejection: Rejection) -> None:
        """Emit a rejection with the coordinates of the refused record."""
        self.write(
            DemandRejected.of(
                rejection,
                source=record.source,
                event_id=record.event_id,
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            )
        )


Handler = Callable[[Work, Record, Event], None]


def on_submitted(work: Work, record: Record, event: Event) -> None:
    """Queue a new job."""
    assert isinstance(event, JobSubmitted)
    state = work.state
    known, pool = state.jobs.get(event.record_key()), state.accounts.pool_of(event.team)
    told = identity(record, event)
    _settle(
        work, record, event, judge_submission(known, told, pool, event, state.next_position), told
    )


def on_limit_changed(work: Work, record: Record, event: Event) -> None:
    """Change what a job may cost."""
    assert isinstance(event, JobLimitChanged)
    known = work.state.jobs.get(event.record_key())
    told = identity(record, event)
    pool = work.state.accounts.pool_of(event.team)
    _settle(work, record, event, judge_limit_change(known, told, pool, event), told)


def on_cancelled(work: Work, record: Record, event: Event) -> None:
    """Withdraw a job."""
    assert isinstance(event, JobCancelled)
    known = work.state.jobs.get(event.record_key())
    pool = work.state.accounts.pool_of(event.team)
    _settle(work, record, event, judge_cancellation(known, pool, event), identity(record, event))


def on_requested(work: Work, record: Record, event: Event) -> None:
    """Take an account document.

    Every stage judges every request, so that all know what all decided; the one whose partition it
    is writes the outcome.
    """
    assert isinstance(event, AccountsRequested)
    state, entity, told = work.state, event.document.entity(), identity(record, event)
    outcome: AccountsChanged | Repeat | Rejection
    before = state.requests.get(entity, {}).get(told)
    if before is None:
        outcome = judge_request(state.accounts, event, work.market_time_ms)
        code = outcome.code.value if isinstance(outcome, Rejection) else ""
        state.remember_request(entity, told, code)
    else:
        outcome = refused_before(RejectionCode(before)) if before else Repeat()
    if isinstance(outcome, AccountsChanged):
        state.accounts.put(outcome)
    if record.partition != work.partition:
        return
    match outcome:
        case AccountsChanged():
            work.write(outcome)
        case Rejection():
            work.refuse(record, outcome)
        case Repeat():
            work.repeats += 1


def on_status(work: Work, record: Record, event: Event) -> None:
    """End a job that placement says is over."""
    assert isinstance(event, JobStatusChanged)
    del record
    key = event.record_key()
    job = work.state.jobs.get(key)
    if event.state not in ENDED_STATES or not isinstance(job, Job):
        return
    work.state.end(key, job, work.market_time_ms)
    work.outputs.append(replace(tombstone(JobQueued, key, event.team), partition=work.partition))


HANDLERS: Final[dict[str, Handler]] = {
    JobSubmitted.TYPE: on_submitted,
    JobLimitChanged.TYPE: on_limit_changed,
    JobCancelled.TYPE: on_cancelled,
    AccountsRequested.TYPE: on_requested,
    JobStatusChanged.TYPE: on_status,
}


def identity(record: Record, event: Event) -> str:
    """Return the digest by which an event is recognised when it is told again.

    Source and id name an event (CloudEvents 1.0). Its type and subject are part of the digest, so
    that a producer that uses one id for two jobs does not lose the second one.
    """
    return digest_of(record.source or "", record.event_id or "", event.TYPE, event.record_key())


def rehome(work: Work) -> None:
    """Write the jobs of teams that are in another pool now."""
    state = work.state
    for team in sorted(state.live_of_team):
        pool = state.accounts.pool_of(team)
        if pool is None:
            continue
        for key, job in state.live_jobs(team):
            if job.queued.pool != pool:
                queued = job.queued.model_copy(update={"pool": pool})
                state.put(key, Job(queued, job.told))
                work.write(queued)


def _settle(
    work: Work,
    record: Record,
    event: JobSubmitted | JobLimitChanged | JobCancelled,
    outcome: JobQueued | Repeat | Rejection,
    told: str,
) -> None:
    """Apply what was decided about a job."""
    state, key = work.state, event.record_key()
    known = state.jobs.get(key)
    before = state.refusal_of(told)
    if before is not None and not isinstance(outcome, Repeat):
        work.refuse(record, refused_before(before))
        return
    match outcome:
        case JobQueued():
            if known is None:
                state.take_position()
            state.put(key, Job(outcome, (*(known.told if known else ()), told)))
            work.write(outcome)
        case Repeat():
            work.repeats += 1
            # A limit told under a second id must stay known when later revisions have passed it.
            remembered = isinstance(event, JobLimitChanged)
            if remembered and isinstance(known, Job) and told not in known.told:
                state.put(key, Job(known.queued, (*known.told, told)))
        case Rejection():
            state.remember_refusal(told, outcome.code)
            work.refuse(record, outcome)
