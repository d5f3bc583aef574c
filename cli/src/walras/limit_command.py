"""``walras limit``: changes what a job may cost."""

import argparse
import json
from typing import Final

from walras.billing_log.amounts import credits_text
from walras.jobs_log.arguments import (
    EXIT_CODES,
    JSON_FAULT,
    add_broker_arguments,
    add_waiting_arguments,
    broker_of,
    guarded,
    job_target,
)
from walras.jobs_log.changing import (
    EXIT_BY_OUTCOME,
    TOPICS,
    Change,
    Outcome,
    change,
    queued_job,
)
from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.items import Log
from walras.jobs_log.kafka_log import open_log
from walras.jobs_log.telling import change_base
from walras.jobs_log.units import micro_of
from walras_contracts.demand import JobLimitChanged, JobQueued
from walras_contracts.identifiers import job_key
from walras_contracts.quantities import LIMIT_MICRO_MAX

NONE: Final = "none"
TIMEOUT_S: Final = 60

DESCRIPTION: Final = """\
Change the highest price that a job pays per accelerator-hour, as the next revision of the job in
the queue, and wait until that is accepted or rejected. A running job that the price has passed
leaves when its minimum run is over; a pending one may start."""

EPILOG: Final = f"""\
PRICE is in credits, up to 6 decimals; 0: only what nobody bought, for nothing; none: no limit.

{EXIT_CODES}
{JSON_FAULT}

example:  walras limit vision/train-7 2.75"""


def add_limit_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``limit`` command."""
    parser = subparsers.add_parser(
        "limit",
        help="change what a job may cost",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("job", metavar="TEAM/JOB", help="the job")
    parser.add_argument("price", metavar="PRICE", help="credits per accelerator-hour, or none")
    add_waiting_arguments(parser, TIMEOUT_S)
    add_broker_arguments(parser)
    parser.set_defaults(run=run_limit)


def run_limit(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    return guarded("limit", arguments, _run)


def _run(arguments: argparse.Namespace) -> int:
    team, job = job_target(arguments.job)
    limit_micro = limit_of(arguments.price)
    timeout_ms = None if arguments.no_wait else arguments.timeout_s * 1000
    with open_log(broker_of(arguments), TOPICS) as log:
        found = set_limit(log, team, job, limit_micro, timeout_ms)
    key = job_key(team, job)
    if arguments.json:
        print(json.dumps(found.document(key)))
    else:
        print(found.line(key, limit_words(limit_micro)))
    return EXIT_BY_OUTCOME.get(found.outcome, 0)


def set_limit(
    log: Log, team: str, job: str, limit_micro: int | None, timeout_ms: int | None
) -> Change:
    """Set the limit of a job; ``timeout_ms`` None: nobody waits for the answer.

    Raises
    ------
    JobsLogError
        The job is not in the queue or is withdrawn, or the log cannot be read or written.
    """
    queued = queued_job(log, team, job)
    if queued.cancelled:
        raise JobsLogError(Fault.JOB_ENDED, f"job {queued.record_key()} was withdrawn")
    if queued.limit_micro == limit_micro:
        return Change(Outcome.ALREADY, queued)
    revision = queued.revision + 1
    event = JobLimitChanged(team=team, job=job, revision=revision, limit_micro=limit_micro)

    def taken(shown: JobQueued | None) -> bool:
        return shown is not None and shown.revision >= revision and shown.limit_micro == limit_micro

    base = change_base("limit", queued, str(revision), str(limit_micro))
    return change(log, event, base, taken, timeout_ms)


def limit_of(text: str) -> int | None:
    """Return µcr per accelerator-hour; None: no limit.

    Raises
    ------
    JobsLogError
        It is no price, or out of range.
    """
    if text == NONE:
        return None
    try:
        micro = micro_of(text)
    except ValueError as error:
        raise JobsLogError(
            Fault.BAD_ARGUMENT, f"PRICE {error}", "give credits per accelerator-hour, or none"
        ) from error
    if micro > LIMIT_MICRO_MAX:
        raise JobsLogError(
            Fault.BAD_ARGUMENT,
            f"PRICE {text} is above {credits_text(LIMIT_MICRO_MAX)} credits, the highest limit",
            "give none for no limit",
        )
    return micro


def limit_words(limit_micro: int | None) -> str:
    """Return a limit for people."""
    if limit_micro is None:
        return "has no limit"
    return f"has the limit {credits_text(limit_micro)} credits per accelerator-hour"
