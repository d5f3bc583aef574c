"""``walras submit``: gives a job from a file to the market."""

import argparse
import json
from typing import Final

from walras.instance_arguments import OK, BadInputError, read_bytes, say
from walras.jobs_log.arguments import (
    EXIT_CODES,
    JSON_FAULT,
    NOT_KNOWN,
    REFUSED,
    add_broker_arguments,
    add_waiting_arguments,
    broker_of,
    guarded,
)
from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.kafka_log import open_log
from walras.jobs_log.units import accelerators_text
from walras.submit.grace_chain import DEFAULT_TERMS
from walras.submit.job_file import JobFile, read_job_file
from walras.submit.submitting import TOPICS, Outcome, Submission, checked, examined, submit
from walras_runtime.clock import wall_ms

DESCRIPTION: Final = """\
Check a job, give it to the market, and wait until it is accepted or rejected. A job that is in the
queue already is not submitted again: the same file may be given any number of times.

Before, the grace chain is checked: the platform's time from the warning to SIGTERM must hold the
job's checkpoint, the time from SIGTERM to SIGKILL its stop, and a launcher must leave its workers
both. The shortest link that does not hold is warned of, with what to change."""

EPILOG: Final = f"""\
team = "vision"                  # of one pool
job = "train-7"                  # one of its name until a day after it ended
types = ["a100-80gb", "h100"]    # acceptable types, preferred first
accelerators = 8                 # up to 3 decimals
gang = true                      # all or nothing
limit = "2.50"                   # credits per accelerator-hour, up to 6 decimals; "none"; 0: for
                                 # nothing, opportunistic only
expected_run = "6h"              # time left to run; with ms, s, min, h, d: "1h 30min"
minimum_run = "30min"            # stays so long if the price rises a little
drainability = "checkpoint"      # or "restart", "none"
deadline = 2026-01-31T12:00:00Z

[run]                            # what node agents start; left out: a simulated fleet runs it
command = ["python", "train.py"]
directory = ""                   # "": its checkpoint directory
warning = "signal"               # or "file", "http" with warning_url
# warning_url = "http://127.0.0.1:8080/drain"
checkpoint = "30s"               # saving takes at the most
stop = "10s"                     # ending after SIGTERM takes at the most
# launcher_stop = "30s"          # after so long its launcher kills the workers
[run.environment]
EPOCHS = "90"

Only team, job, types, accelerators, and of a [run] its command, are required.
--dry-run checks the file, with a broker also against queue, supply and the platform's terms, and
prints the event; nothing is written.

{EXIT_CODES}
{JSON_FAULT}

example:  walras submit train-7.toml --bootstrap 127.0.0.1:9092"""
TIMEOUT_S: Final = 60
CODES: Final = {Outcome.REFUSED: REFUSED, Outcome.NOT_TAKEN: REFUSED, Outcome.NOT_KNOWN: NOT_KNOWN}


def add_submit_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``submit`` command."""
    parser = subparsers.add_parser(
        "submit",
        help="check a job from a file, and give it to the market",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help='the job in TOML; "-" reads stdin')
    parser.add_argument("--dry-run", action="store_true", help="check it, write nothing")
    add_waiting_arguments(parser, TIMEOUT_S)
    add_broker_arguments(parser)
    parser.set_defaults(run=run_submit)


def run_submit(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    return guarded("submit", arguments, _run)


def _run(arguments: argparse.Namespace) -> int:
    file = _file(arguments.file)
    if arguments.dry_run and arguments.bootstrap is None:
        found = checked(file, wall_ms(), DEFAULT_TERMS)
        _warn(found)
    else:
        # What is wrong with the file is said without a broker, too.
        checked(file, 0, DEFAULT_TERMS)
        with open_log(broker_of(arguments), TOPICS) as log:
            found = examined(log, file)
            _warn(found)
            if not arguments.dry_run:
                timeout_ms = arguments.timeout_s * 1000
                submit(log, found, wait=not arguments.no_wait, timeout_ms=timeout_ms)
    if arguments.json:
        print(json.dumps(found.document()))
    else:
        print("\n".join(lines(found, with_event=arguments.dry_run)))
    return CODES.get(found.outcome, OK)


def lines(found: Submission, *, with_event: bool) -> list[str]:
    """Return what became of a submission for people; warnings aside."""
    key, queued, refusal = found.job.record_key(), found.queued, found.refusal
    size = (
        f"{accelerators_text(found.job.size_macc)} accelerators of {' or '.join(found.job.types)}"
    )
    place = f" at position {queued.position} of pool {queued.pool}" if queued is not None else ""
    reason = (
        "" if refusal is None else f": {refusal.path or '$'}: {refusal.reason} [{refusal.code}]"
    )
    words = {
        Outcome.CHECKED: f"{key}: {size}: nothing wrong with it; nothing was written",
        Outcome.WRITTEN: f"{key}: {size}: written; `walras jobs {key}` shows what becomes of it",
        Outcome.ACCEPTED: f"{key}: {size}: accepted{place}",
        Outcome.ALREADY: f"{key}: {size}: is in the queue already{place}; nothing was written",
        Outcome.REFUSED: f"{key}: rejected{reason}",
        Outcome.NOT_TAKEN: f"{key}: not in the queue: intake knows its name from another job, or "
        "the job has ended meanwhile",
        Outcome.NOT_KNOWN: f"{key}: written, but not answered in time: does intake run? The same "
        "command may be given again, the job counts once",
    }
    found_lines = [words[found.outcome]]
    if with_event:
        found_lines += [f"  {link.words()}" for link in found.chain]
        if not found.chain:
            found_lines.append("  no command to run: only a simulated fleet runs it")
        found_lines.append(json.dumps(found.job.model_dump(mode="json"), indent=2))
    return found_lines


def _warn(found: Submission) -> None:
    for warning in found.warnings:
        say(f"walras submit: warning: {warning}")


def _file(name: str) -> JobFile:
    try:
        data = read_bytes("job", name)
    except BadInputError as error:
        raise JobsLogError(Fault.BAD_FILE, str(error), "give a TOML file, or -") from error
    return read_job_file("standard input" if name == "-" else name, data)
