"""What the commands about jobs and nodes share: arguments, exit codes, how they refuse."""

import argparse
import json
import os
import re
from collections.abc import Callable
from typing import Final

from walras.instance_arguments import BAD_INPUT, say
from walras.jobs_log.errors import Fault, JobsLogError
from walras_contracts.identifiers import ID_PATTERN

REFUSED: Final = 3
NOT_KNOWN: Final = 4
INTERRUPTED: Final = 130
"""As of a program that SIGINT ended."""

EXIT_CODES: Final = """\
exit codes: 0 done; 2 it cannot be asked (bad argument, unknown job or node, no broker, no topic);
3 refused, or it ended otherwise; 4 not known within --timeout-s; 130 interrupted while waiting
(what was written stays written)."""

JSON_FAULT: Final = """\
With --json a refusal is {"error": {"code", "reason", "todo", "retriable"}} on standard output."""

_ID = re.compile(ID_PATTERN)


def add_broker_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the broker and the form of the answer."""
    parser.add_argument(
        "--bootstrap",
        default=os.environ.get("WALRAS_KAFKA_BOOTSTRAP"),
        help="broker, host:port (default: WALRAS_KAFKA_BOOTSTRAP)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def add_waiting_arguments(parser: argparse.ArgumentParser, timeout_s: int | None) -> None:
    """Add whether and how long it is waited for an answer.

    Parameters
    ----------
    parser
        Of a command.
    timeout_s
        How long by default, in seconds; None: without an end.
    """
    parser.add_argument(
        "--no-wait", action="store_true", help="write it, and do not wait for what becomes of it"
    )
    words = "%(default)s" if timeout_s is not None else "as long as it takes"
    parser.add_argument(
        "--timeout-s",
        type=_positive,
        default=timeout_s,
        metavar="SECONDS",
        help=f"how long to wait (default: {words})",
    )


def broker_of(arguments: argparse.Namespace) -> str:
    """Return the address of the broker.

    Raises
    ------
    JobsLogError
        None is named.
    """
    bootstrap: str | None = arguments.bootstrap
    if bootstrap is None:
        raise JobsLogError(
            Fault.NO_BROKER, "no broker is named", "give --bootstrap or WALRAS_KAFKA_BOOTSTRAP"
        )
    return bootstrap


def checked_id(text: str, what: str) -> str:
    """Return a name that may be one.

    Raises
    ------
    JobsLogError
        No team, job or node can be called so.
    """
    if not _ID.fullmatch(text):
        raise JobsLogError(
            Fault.BAD_ARGUMENT,
            f"{text!r} is no name of a {what}",
            "letters, digits, '.', '_' and '-', at most 63, the first a letter or digit",
        )
    return text


def job_target(text: str) -> tuple[str, str]:
    """Return team and job of ``TEAM/JOB``.

    Raises
    ------
    JobsLogError
        It is something else.
    """
    team, slash, job = text.partition("/")
    if not slash:
        raise JobsLogError(Fault.BAD_ARGUMENT, f"{text!r} names no job", "write it as TEAM/JOB")
    return checked_id(team, "team"), checked_id(job, "job")


def guarded(
    name: str, arguments: argparse.Namespace, action: Callable[[argparse.Namespace], int]
) -> int:
    """Run a command; turn what it cannot do into words and an exit code."""
    try:
        return action(arguments)
    except JobsLogError as error:
        say(f"walras {name}: {error.line()}")
        if arguments.json:
            print(json.dumps({"error": error.document()}))
        return BAD_INPUT
    except KeyboardInterrupt:
        say(f"walras {name}: interrupted; what was written stays written")
        return INTERRUPTED


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 10**9:
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 10^9")
    return value
