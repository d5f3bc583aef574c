"""``walras doctor``: what this machine has for `make demo`, what is missing, how to get it."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from walras_launcher.command import show
from walras_launcher.doctor import Finding, inspect_machine

if TYPE_CHECKING:
    # The only name argparse has for what add_subparsers returns.
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

SUMMARY = "say what this machine has, what is missing, and how to get it"


def add_doctor_parser(subparsers: "Subparsers") -> argparse.ArgumentParser:
    """Add the command to the parser of ``walras``; its ``run`` default is :func:`run_doctor`.

    Parameters
    ----------
    subparsers
        What ``ArgumentParser.add_subparsers`` returned.
    """
    parser = subparsers.add_parser("doctor", help=SUMMARY, description=f"Doctor: {SUMMARY}.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run_doctor)
    return parser


def run_doctor(
    args: argparse.Namespace,
    *,
    inspect: Callable[[], list[Finding]] = inspect_machine,
    out: TextIO | None = None,
) -> int:
    """Print the findings; nothing is started, fetched or written.

    Parameters
    ----------
    args
        Parsed arguments; ``json`` selects JSON in place of the table.
    inspect
        Looks at the machine.
    out
        Where the findings go; standard output if left out.

    Returns
    -------
    int
        0 when all that ``make demo`` needs is there; 1 otherwise, after what is missing and how
        to get it.
    """
    return show(inspect(), out or sys.stdout, as_json=args.json)
