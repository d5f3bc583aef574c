"""Ids under which demand is told: the same for the same wish, another one after a refusal.

Intake knows an event again by its source and id. A repeat must have the id of the first attempt;
an attempt after a refusal must have another one, or it is refused for having been refused.
"""

from typing import Final

from walras.jobs_log.items import Log
from walras_contracts.demand import DemandRejected, JobQueued, JobSubmitted
from walras_contracts.identifiers import digest_of

SOURCE: Final = "walras/command"


def event_id(base: str, refused: list[str]) -> str:
    """Return the id of an attempt.

    Parameters
    ----------
    base
        What all attempts share.
    refused
        Ids of events that were refused.
    """
    numbers = [
        int(rest)
        for rest in (each.removeprefix(f"{base}/") for each in refused if each.startswith(base))
        if rest.isascii() and rest.isdigit() and len(rest) < 10
    ]
    return f"{base}/{max(numbers, default=-1) + 1}"


def refused_ids(log: Log, team: str) -> list[str]:
    """Return the ids of the refused events that these commands wrote in a team's partition.

    Raises
    ------
    JobsLogError
        The log cannot be read.
    """
    return [
        item.event.event_id
        for item in log.read(DemandRejected.TOPIC, DemandRejected, partition_key=team)
        if isinstance(item.event, DemandRejected) and item.event.source == SOURCE
    ]


def submission_base(job: JobSubmitted, ended_ms: int | None) -> str:
    """Return what the ids of attempts to submit this very job share.

    Parameters
    ----------
    job
        Whenever it was submitted.
    ended_ms
        When a namesake ended; None: none did. After that it is another job.
    """
    wish = job.model_copy(update={"submitted_ms": 0}).payload().decode()
    return f"walras/submit/{digest_of(wish, str(ended_ms))}"


def change_base(kind: str, queued: JobQueued, *wish: str) -> str:
    """Return what the ids of attempts to change a job of the queue share.

    Its position tells it from later namesakes.
    """
    return f"walras/{kind}/{digest_of(queued.record_key(), str(queued.position), *wish)}"


def is_same_job(queued: JobQueued, job: JobSubmitted) -> bool:
    """Whether a job of the queue is what is submitted, a limit that was changed since aside."""
    same = queued.model_copy(update={"submitted_ms": job.submitted_ms})
    if queued.revision > 0:
        same = same.model_copy(update={"limit_micro": job.limit_micro})
    return all(getattr(same, name) == getattr(job, name) for name in JobSubmitted.model_fields)
