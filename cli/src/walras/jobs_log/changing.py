"""Changes of a job of the queue: written once, with what intake makes of them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from walras.jobs_log.arguments import NOT_KNOWN, REFUSED
from walras.jobs_log.demand_answer import TOPICS as ANSWER_TOPICS
from walras.jobs_log.demand_answer import Taken, await_answer
from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.folding import latest
from walras.jobs_log.items import Log
from walras.jobs_log.telling import SOURCE, event_id, refused_ids
from walras_contracts.demand import DemandRejected, JobCancelled, JobLimitChanged, JobQueued
from walras_contracts.identifiers import job_key
from walras_contracts.work import JobStatusChanged

TOPICS: Final = (*ANSWER_TOPICS, "job.status")


class Outcome(StrEnum):
    """What became of a change."""

    ALREADY = "already"
    """It was so before; nothing was written."""
    WRITTEN = "written"
    """It is in the log; nobody waited for an answer."""
    TAKEN = "taken"
    ENDED = "ended"
    """The job ended by itself meanwhile."""
    REFUSED = "refused"
    NOT_TAKEN = "not_taken"
    """Intake took it for something that it was told before."""
    NOT_KNOWN = "not_known"
    """No answer came in time."""


EXIT_BY_OUTCOME: Final = {
    Outcome.REFUSED: REFUSED,
    Outcome.NOT_TAKEN: REFUSED,
    Outcome.NOT_KNOWN: NOT_KNOWN,
}


@dataclass(frozen=True, slots=True)
class Change:
    """A change and what became of it; ``queued``: the job as the queue shows it then."""

    outcome: Outcome
    queued: JobQueued | None
    event: JobLimitChanged | JobCancelled | None = None
    event_id: str = ""
    refusal: DemandRejected | None = None

    def document(self, key: str) -> dict[str, Any]:
        """Return it for ``--json``."""
        return {
            "job": key,
            "outcome": self.outcome.value,
            "event_id": self.event_id or None,
            "event": None if self.event is None else self.event.model_dump(mode="json"),
            "queued": None if self.queued is None else self.queued.model_dump(mode="json"),
            "refusal": None if self.refusal is None else self.refusal.model_dump(mode="json"),
        }

    def line(self, key: str, taken: str) -> str:
        """Return it for people; ``taken`` says what holds once it is taken."""
        if self.outcome is Outcome.REFUSED and self.refusal is not None:
            refusal = self.refusal
            return f"{key}: rejected: {refusal.path}: {refusal.reason} [{refusal.code}]"
        words = {
            Outcome.ALREADY: f"{taken} already; nothing was written",
            Outcome.TAKEN: taken,
            Outcome.ENDED: "it has ended by itself meanwhile",
            Outcome.WRITTEN: f"written; `walras jobs {key}` shows what becomes of it",
            Outcome.NOT_TAKEN: "not taken: something else was told about it in the same moment; "
            f"look at `walras jobs {key}` and try again",
            Outcome.NOT_KNOWN: "written, but not answered in time: does intake run? The same "
            "command may be given again, it counts once",
        }
        return f"{key}: {words[self.outcome]}"


def queued_job(log: Log, team: str, job: str) -> JobQueued:
    """Return a job of the queue.

    Raises
    ------
    JobsLogError
        It is not in it; the text says whether it ended.
    """
    key = job_key(team, job)
    queued = latest(log, JobQueued, team).get(key)
    if queued is not None:
        return queued
    status = latest(log, JobStatusChanged, team).get(key)
    if status is not None:
        raise JobsLogError(
            Fault.JOB_ENDED, f"job {key} is not in the queue: it is {status.state.value}"
        )
    raise JobsLogError(
        Fault.UNKNOWN_JOB, f"team {team} has no job {job}", f"`walras jobs {team}` lists its jobs"
    )


def change(
    log: Log,
    event: JobLimitChanged | JobCancelled,
    base: str,
    taken: Taken,
    timeout_ms: int | None,
) -> Change:
    """Write a change of a job that was read by :func:`queued_job`, and wait for the answer.

    Parameters
    ----------
    log
        Where to.
    event
        The change.
    base
        What the ids of attempts at it share.
    taken
        Whether the queue shows it.
    timeout_ms
        How long to wait; None: not at all.

    Raises
    ------
    JobsLogError
        The log cannot be read or written.
    """
    name = event_id(base, refused_ids(log, event.team))
    place = log.write(event, name, SOURCE)
    if timeout_ms is None:
        return Change(Outcome.WRITTEN, None, event, name)
    answer = await_answer(log, place, event.record_key(), taken, timeout_ms=timeout_ms)
    if not answer.known:
        return Change(Outcome.NOT_KNOWN, None, event, name)
    if answer.refusal is not None:
        return Change(Outcome.REFUSED, None, event, name, answer.refusal)
    outcome = Outcome.TAKEN if answer.taken else Outcome.NOT_TAKEN
    return Change(outcome, answer.queued, event, name)
