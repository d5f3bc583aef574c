"""``walras jobs``: where jobs stand, what they wait for, what they would cost."""

import argparse
import json
import sys
from typing import Final

from rich.console import Console

from walras.instance_arguments import OK
from walras.jobs.document import jobs_document
from walras.jobs.reading import TOPICS, read_jobs
from walras.jobs.tables import as_of, jobs_table, page_lines
from walras.jobs_log.arguments import (
    JSON_FAULT,
    add_broker_arguments,
    broker_of,
    checked_id,
    guarded,
)
from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.kafka_log import open_log

PLAIN_COLUMNS: Final = 220
"""Width of tables that no terminal shows."""

DESCRIPTION: Final = """\
Where jobs stand: state, why a pending one waits (what it needs, what is available, how much it is
short by, said in which cycle), its place in the queue of its team, what each type that it accepts
costs its pool against its limit, lease and nodes, and how far a drain is, with deadline and
blockers. With --job: all that is known of one."""

EPILOG: Final = f"""\
A job that is short of quota is short of what its team has not bought in that market; one whose
limit is below the price is short of the difference. In the list the cycle is open (–, null) where
the reason was said more than 100,000 price records ago; the page of one job always has it.

With --json: {{"barrier", "market_time_ms", "jobs": [{{"team", "job", "state", "waiting":
{{"reason", "needed_macc", "available_macc", "short_by_macc", "cycle"}}, "queue": {{"place",
"waiting"}}, "prices", "lease", "nodes", "drain"}}]}}; what is not known is null.
{JSON_FAULT}

exit codes: 0 shown, be it none; 2 unknown job, nothing to read from.

examples:  walras jobs vision
           walras jobs vision --job train-7"""


def add_jobs_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``jobs`` command."""
    parser = subparsers.add_parser(
        "jobs",
        help="where jobs stand, what they wait for, what they would cost",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("team", metavar="TEAM", nargs="?", help="of this team; TEAM/JOB is one job")
    parser.add_argument("--job", metavar="ID", help="all about this job of the team")
    parser.add_argument("--ended", action="store_true", help="those that have ended, too")
    add_broker_arguments(parser)
    parser.set_defaults(run=run_jobs)


def run_jobs(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    return guarded("jobs", arguments, _run)


def _run(arguments: argparse.Namespace) -> int:
    team, job = _wanted(arguments)
    with open_log(broker_of(arguments), TOPICS) as log:
        jobs = read_jobs(log, team, job, ended=arguments.ended)
    if arguments.json:
        print(json.dumps(jobs_document(jobs)))
    elif job is not None:
        print("\n".join(page_lines(jobs.jobs[0], jobs)))
    elif not jobs.jobs:
        print(f"no job of those asked for is there; {as_of(jobs)}")
    else:
        Console(width=None if sys.stdout.isatty() else PLAIN_COLUMNS).print(jobs_table(jobs))
    return OK


def _wanted(arguments: argparse.Namespace) -> tuple[str | None, str | None]:
    team, job = arguments.team, arguments.job
    if team is not None and "/" in team:
        team, _, of_team = team.partition("/")
        if job is not None:
            raise JobsLogError(Fault.BAD_ARGUMENT, "one job is named twice", "leave out --job")
        job = of_team
    if team is None and job is not None:
        raise JobsLogError(
            Fault.BAD_ARGUMENT, "--job needs its team", "write walras jobs TEAM --job ID"
        )
    return (
        None if team is None else checked_id(team, "team"),
        None if job is None else checked_id(job, "job"),
    )
