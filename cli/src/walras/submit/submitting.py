"""Gives a job to the market, once, and says what intake made of it."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from walras.jobs_log.demand_answer import TOPICS as ANSWER_TOPICS
from walras.jobs_log.demand_answer import await_answer
from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.folding import latest, latest_of, market_now_ms
from walras.jobs_log.items import Log
from walras.jobs_log.telling import SOURCE, event_id, is_same_job, refused_ids, submission_base
from walras.submit.grace_chain import Link, grace_chain, terms_in_force, warnings
from walras.submit.job_file import JobFile
from walras_contracts.accounts import AccountsChanged, DrainTerms, PlatformDocument
from walras_contracts.capacity import SupplyPublished
from walras_contracts.demand import DemandRejected, JobQueued, JobSubmitted
from walras_contracts.wait_reasons import ENDED_STATES
from walras_contracts.work import JobStatusChanged

TOPICS: Final = (*ANSWER_TOPICS, "accounts", "supply", "job.status")


class Outcome(StrEnum):
    """What became of a submission."""

    CHECKED = "checked"
    """Nothing was written."""
    WRITTEN = "written"
    """It is in the log; nobody waited for an answer."""
    ACCEPTED = "accepted"
    ALREADY = "already"
    """The very job is in the queue; nothing was written."""
    REFUSED = "refused"
    NOT_TAKEN = "not_taken"
    """Intake took it for something that it was told before; the job is not in the queue."""
    NOT_KNOWN = "not_known"
    """No answer came in time."""


@dataclass(slots=True)
class Submission:
    """A job, how its grace chain stands, and what became of it."""

    job: JobSubmitted
    outcome: Outcome
    chain: list[Link]
    warnings: list[str] = field(default_factory=list)
    event_id: str = ""
    queued: JobQueued | None = None
    refusal: DemandRejected | None = None

    def document(self) -> dict[str, Any]:
        """Return it for ``--json``."""
        return {
            "job": self.job.record_key(),
            "outcome": self.outcome.value,
            "event_id": self.event_id or None,
            "event": self.job.model_dump(mode="json"),
            "queued": None if self.queued is None else self.queued.model_dump(mode="json"),
            "refusal": None if self.refusal is None else self.refusal.model_dump(mode="json"),
            "grace_chain": [link.document() for link in self.chain],
            "warnings": self.warnings,
        }


def checked(file: JobFile, submitted_ms: int, terms: DrainTerms) -> Submission:
    """Check a file without a log.

    Raises
    ------
    JobsLogError
        It is no job.
    """
    job = file.event(submitted_ms)
    chain = grace_chain(job, terms)
    return Submission(job, Outcome.CHECKED, chain, warnings(chain))


def examined(log: Log, file: JobFile) -> Submission:
    """Check a file against a log; nothing is written.

    Returns
    -------
    Submission
        ``ALREADY`` where the queue has the very job, else ``CHECKED``.

    Raises
    ------
    JobsLogError
        It is no job, its name is taken by another one, or the log cannot be read.
    """
    # Its time is told by the partition of its team, which is known once it is read.
    team = file.event(0).team
    now_ms = market_now_ms(log, "demand", team)
    terms = terms_in_force(
        (
            item.event
            for item in log.read(
                AccountsChanged.TOPIC,
                AccountsChanged,
                partition_key=PlatformDocument().entity(),
            )
            if isinstance(item.event, AccountsChanged)
        ),
        now_ms,
    )
    found = checked(file, now_ms, terms)
    found.warnings += _unknown_types(log, found.job)
    queued = latest(log, JobQueued, team).get(found.job.record_key())
    if queued is not None:
        _refuse_other(queued, found.job)
        found.outcome, found.queued = Outcome.ALREADY, queued
        if queued.limit_micro != found.job.limit_micro:
            found.warnings.append(
                "its limit was changed since: the queue's counts, not the file's (walras limit)"
            )
    return found


def submit(log: Log, found: Submission, *, wait: bool, timeout_ms: int) -> Submission:
    """Write what :func:`examined` found to be new, and wait for the answer.

    Raises
    ------
    JobsLogError
        The log cannot be read or written.
    """
    if found.outcome is not Outcome.CHECKED:
        return found
    job, key = found.job, found.job.record_key()
    base = submission_base(job, _ended_ms(log, job))
    found.event_id = event_id(base, refused_ids(log, job.team))
    place = log.write(job, found.event_id, SOURCE)
    found.outcome = Outcome.WRITTEN
    if not wait:
        return found
    answer = await_answer(log, place, key, lambda queued: queued is not None, timeout_ms=timeout_ms)
    found.queued, found.refusal = answer.queued, answer.refusal
    if not answer.known:
        found.outcome = Outcome.NOT_KNOWN
    elif answer.refusal is not None:
        found.outcome = Outcome.REFUSED
    elif answer.queued is None:
        found.outcome = Outcome.NOT_TAKEN
    else:
        # Somebody else may have given the name to another job in the same moment.
        same = is_same_job(answer.queued, job)
        found.outcome = Outcome.ACCEPTED if same else Outcome.NOT_TAKEN
    return found


def _refuse_other(queued: JobQueued, job: JobSubmitted) -> None:
    key = job.record_key()
    if queued.cancelled:
        raise JobsLogError(
            Fault.JOB_ENDED,
            f"job {key} was withdrawn, and is still leaving",
            "its name is free a day after it has ended: give this one another name",
        )
    if not is_same_job(queued, job):
        names = [
            name
            for name in JobSubmitted.model_fields
            if name != "submitted_ms" and getattr(queued, name) != getattr(job, name)
        ]
        raise JobsLogError(
            Fault.JOB_EXISTS,
            f"job {key} is in the queue already, with another {', '.join(names)}",
            "`walras limit` changes its limit; for the rest give it another name",
        )


def _ended_ms(log: Log, job: JobSubmitted) -> int | None:
    items = log.read(JobStatusChanged.TOPIC, JobStatusChanged, partition_key=job.team)
    status = latest_of(items, JobStatusChanged).get(job.record_key())
    ended = status is not None and status.state in ENDED_STATES
    return status.changed_ms if status is not None and ended else None


def _unknown_types(log: Log, job: JobSubmitted) -> list[str]:
    known = latest(log, SupplyPublished)
    missing = [kind for kind in job.types if kind not in known]
    follows = "it waits until there is" if len(missing) == len(job.types) else "passed over"
    return [f"types: no supply names {', '.join(missing)}: {follows}"] if missing else []
