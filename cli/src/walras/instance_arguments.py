"""What the commands about one market share: instance, margin policy, and how they refuse."""

import argparse
import sys
from pathlib import Path
from typing import Final, get_args

from walras_clearing import ClearingInputError
from walras_clearing.instance import parse_instance
from walras_clearing.model import Margin, Market

OK: Final = 0
BAD_INPUT: Final = 2


class BadInputError(Exception):
    """Something that the command was given is not usable; the text is for the user."""


def add_instance_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the instance, the margin policy and the form of the answer to a parser."""
    parser.add_argument(
        "instance", metavar="INSTANCE", help='file with the instance in JSON; "-" reads stdin'
    )
    add_margin_argument(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def add_margin_argument(parser: argparse.ArgumentParser) -> None:
    """Add the margin policy, which the form of an instance does not carry."""
    parser.add_argument(
        "--margin",
        choices=get_args(Margin),
        default="pro_rata",
        help="how ties at the pool price are served (default: %(default)s)",
    )


def read_bytes(role: str, name: str) -> bytes:
    """Read a file, or standard input where it is called "-".

    Raises
    ------
    BadInputError
        Where it cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise BadInputError(f"{role} {name}: {error.strerror}") from error


def read_market(args: argparse.Namespace) -> Market:
    """Read the instance that the arguments name, with their margin policy.

    Raises
    ------
    BadInputError
        Naming the JSON path of the first fault.
    """
    data = read_bytes("instance", args.instance)
    try:
        return parse_instance(data, margin=args.margin)
    except ClearingInputError as error:
        raise BadInputError(f"instance {error}") from error


def refuse(reason: object) -> int:
    """Say why there is no answer; return the exit code."""
    say(str(reason))
    return BAD_INPUT


def say(text: str) -> None:
    """Write one line to standard error."""
    # Foreign text may hold what the terminal cannot print; the message stays one ASCII-safe line.
    line = " ".join(text.splitlines())
    print(line.encode("ascii", "backslashreplace").decode("ascii"), file=sys.stderr)
