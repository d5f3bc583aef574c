"""What intake decides about one event; pure functions of what is known and what is asked."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from walras_contracts.accounts import AccountsChanged, AccountsRequested, PoolDocument
from walras_contracts.demand import JobCancelled, JobLimitChanged, JobQueued, JobSubmitted
from walras_contracts.identifiers import partition_of
from walras_contracts.quantities import SETTLEMENT_MS
from walras_contracts.rejections import Rejection, RejectionCode
from walras_intake.accounts import AccountsTable
from walras_intake.state import EndedJob, Job


@dataclass(frozen=True, slots=True)
class Repeat:
    """What is asked has been done before."""


REPEAT: Final = Repeat()


def next_boundary_ms(market_time_ms: int) -> int:
    """Return the first settlement boundary strictly after a market time."""
    return (market_time_ms // SETTLEMENT_MS + 1) * SETTLEMENT_MS


def judge_submission(
    known: Job | EndedJob | None,
    told: str,
    pool: str | None,
    event: JobSubmitted,
    position: int,
) -> JobQueued | Repeat | Rejection:
    """Decide on a new job.

    Parameters
    ----------
    known
        What goes by the job's name already.
    told
        Digest of the event's identity.
    pool
        Pool of the team; None where no pool names it.
    event
        The submission, every field within its range.
    position
        Place in the queue that the job gets if it is accepted.
    """
    if known is not None and told in known.told:
        return REPEAT
    if pool is None:
        return _unknown_team(event.team)
    if isinstance(known, Job):
        return Rejection(RejectionCode.JOB_EXISTS, "$.job", f"job {event.job} is in the queue")
    if isinstance(known, EndedJob):
        return _ended(event.job)
    return JobQueued(
        team=event.team,
        pool=pool,
        job=event.job,
        types=event.types,
        size_macc=event.size_macc,
        gang=event.gang,
        limit_micro=event.limit_micro,
        expected_run_ms=event.expected_run_ms,
        minimum_run_ms=event.minimum_run_ms,
        drainability=event.drainability,
        deadline_ms=event.deadline_ms,
        submitted_ms=event.submitted_ms,
        position=position,
        revision=0,
        cancelled=False,
        run=event.run,
    )


def judge_limit_change(
    known: Job | EndedJob | None, told: str, pool: str | None, event: JobLimitChanged
) -> JobQueued | Repeat | Rejection:
    """Decide on a new limit price; revisions of a job only grow."""
    if known is None:
        return _unknown_job(event.team, event.job, pool)
    if told in known.told:
        return REPEAT
    if isinstance(known, EndedJob) or known.queued.cancelled:
        return _ended(event.job)
    queued = known.queued
    if event.revision == queued.revision and event.limit_micro == queued.limit_micro:
        return REPEAT
    if event.revision <= queued.revision:
        return Rejection(
            RejectionCode.STALE_REVISION,
            "$.revision",
            f"revision {event.revision} is not above {queued.revision}",
        )
    return queued.model_copy(update={"revision": event.revision, "limit_micro": event.limit_micro})


def judge_cancellation(
    known: Job | EndedJob | None, pool: str | None, event: JobCancelled
) -> JobQueued | Repeat | Rejection:
    """Decide on the withdrawal of a job; withdrawing twice is once."""
    match known:
        case None:
            return _unknown_job(event.team, event.job, pool)
        case Job(queued):
            return REPEAT if queued.cancelled else queued.model_copy(update={"cancelled": True})
        case EndedJob(cancelled=cancelled):
            return REPEAT if cancelled else _ended(event.job)


def judge_request(
    accounts: AccountsTable, event: AccountsRequested, market_time_ms: int
) -> AccountsChanged | Repeat | Rejection:
    """Decide on an account document: its version, and from when it counts.

    A first document counts at once, later ones from the next settlement boundary
    (step protocol §2). A team may be in one pool only, at any time.
    """
    document = event.document
    latest = accounts.latest(document.entity())
    if latest is not None and latest.document == document:
        return REPEAT
    effective_ms = market_time_ms if latest is None else next_boundary_ms(market_time_ms)
    if isinstance(document, PoolDocument):
        for index, account in enumerate(document.teams):
            other = accounts.other_pool(account.team, document.pool, effective_ms)
            if other is not None:
                return Rejection(
                    RejectionCode.TEAM_IN_TWO_POOLS,
                    f"$.document.teams[{index}].team",
                    f"team {account.team} is in pool {other}",
                )
    return AccountsChanged(
        version=1 if latest is None else latest.version + 1,
        effective_ms=effective_ms,
        document=document,
    )


def misplaced(path: str, partition_key: str, partition: int, partitions: int) -> Rejection | None:
    """Return the refusal of a record that lies in a partition that is not its key's.

    One partition has one writer: taking it would let two stages decide about one thing.
    """
    right = _partition_of(partition_key, partitions)
    if right == partition:
        return None
    return Rejection(
        RejectionCode.INVALID_VALUE,
        path,
        f"{partition_key} belongs in partition {right}, the record is in {partition}",
    )


@lru_cache(maxsize=65_536)
def _partition_of(partition_key: str, partitions: int) -> int:
    """Remember the partitions of teams: the hash is slow in Python, and teams are few."""
    return partition_of(partition_key, partitions)


def refused_before(code: RejectionCode) -> Rejection:
    """Return the refusal of an event that was refused when it was told first."""
    return Rejection(code, "", "this event was refused before; a new attempt needs a new event id")


def _unknown_team(team: str) -> Rejection:
    return Rejection(RejectionCode.UNKNOWN_TEAM, "$.team", f"no pool has a team {team}")


def _unknown_job(team: str, job: str, pool: str | None) -> Rejection:
    if pool is None:
        return _unknown_team(team)
    return Rejection(RejectionCode.UNKNOWN_JOB, "$.job", f"team {team} has no job {job}")


def _ended(job: str) -> Rejection:
    return Rejection(RejectionCode.JOB_ENDED, "$.job", f"job {job} has ended or was withdrawn")
