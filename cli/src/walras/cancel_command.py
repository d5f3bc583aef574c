"""``walras cancel``: withdraws a job."""

import argparse
import json
from dataclasses import replace
from typing import Final

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
from walras.jobs_log.items import Log
from walras.jobs_log.kafka_log import open_log
from walras.jobs_log.telling import change_base
from walras_contracts.demand import JobCancelled, JobQueued
from walras_contracts.identifiers import job_key
from walras_contracts.rejections import RejectionCode

TIMEOUT_S: Final = 60

DESCRIPTION: Final = """\
Withdraw a job, and wait until that is accepted or rejected. A pending job ends at once; a running
one is drained as if it had been ordered to leave, and does not come back. To have it leave and wait
for its turn again, drain it (walras drain)."""

EPILOG: Final = f"""\
{EXIT_CODES}
{JSON_FAULT}

example:  walras cancel vision/train-7"""


def add_cancel_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``cancel`` command."""
    parser = subparsers.add_parser(
        "cancel",
        help="withdraw a job",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("job", metavar="TEAM/JOB", help="the job")
    add_waiting_arguments(parser, TIMEOUT_S)
    add_broker_arguments(parser)
    parser.set_defaults(run=run_cancel)


def run_cancel(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    return guarded("cancel", arguments, _run)


def _run(arguments: argparse.Namespace) -> int:
    team, job = job_target(arguments.job)
    timeout_ms = None if arguments.no_wait else arguments.timeout_s * 1000
    with open_log(broker_of(arguments), TOPICS) as log:
        found = withdraw(log, team, job, timeout_ms)
    key = job_key(team, job)
    if arguments.json:
        print(json.dumps(found.document(key)))
    else:
        print(found.line(key, "is withdrawn"))
    return EXIT_BY_OUTCOME.get(found.outcome, 0)


def withdraw(log: Log, team: str, job: str, timeout_ms: int | None) -> Change:
    """Withdraw a job; ``timeout_ms`` None: nobody waits for the answer.

    Raises
    ------
    JobsLogError
        The job is not in the queue, or the log cannot be read or written.
    """
    queued = queued_job(log, team, job)
    if queued.cancelled:
        return Change(Outcome.ALREADY, queued)

    def taken(shown: JobQueued | None) -> bool:
        return shown is None or shown.cancelled

    base = change_base("cancel", queued)
    found = change(log, JobCancelled(team=team, job=job), base, taken, timeout_ms)
    # Its tombstone and the refusal to withdraw it tell the same, and either may be seen first.
    is_gone = found.outcome is Outcome.TAKEN and found.queued is None
    refusal = found.refusal
    if is_gone or (refusal is not None and refusal.code == RejectionCode.JOB_ENDED.value):
        return replace(found, outcome=Outcome.ENDED)
    return found
