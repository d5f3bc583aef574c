"""The arguments that the money commands share: where from, and over which time."""

import argparse
import os
from typing import Final

from walras.billing_log.errors import BillingLogError
from walras.billing_log.event_files import STANDARD_INPUT
from walras.billing_log.sources import Files, Kafka, Source
from walras.billing_log.window import Window, market_time_ms

FILE_FORM: Final = """\
A file given with --file has one event a line: its JSON payload as it is on the topic, or a
CloudEvent {"type": …, "data": …}. Events of other kinds are passed over; those of a team or a
market must be in the order of the log. Barriers may be among them."""


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the broker and the files, read by :func:`source_of`."""
    parser.add_argument(
        "--bootstrap",
        default=os.environ.get("WALRAS_KAFKA_BOOTSTRAP"),
        help="broker, host:port (default: WALRAS_KAFKA_BOOTSTRAP)",
    )
    parser.add_argument(
        "--file",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help='read events from a file instead; "-" reads stdin; repeatable',
    )


def source_of(arguments: argparse.Namespace) -> Source:
    """Return where to read from: the files, where some are named.

    Raises
    ------
    BillingLogError
        Neither a broker nor a file is named, or standard input is named more than once.
    """
    if arguments.files.count(STANDARD_INPUT) > 1:
        raise BillingLogError("standard input can be read only once")
    if arguments.files:
        return Files(tuple(arguments.files))
    if arguments.bootstrap is None:
        raise BillingLogError("name a broker with --bootstrap, or files with --file")
    return Kafka(arguments.bootstrap)


def add_window_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--from`` and ``--to``, read by :func:`window_of`."""
    for name, words in (("from", "start, included"), ("to", "end, excluded")):
        parser.add_argument(
            f"--{name}",
            dest=f"{name}_ms",
            type=_time,
            metavar="TIME",
            help=f"{words}: milliseconds, or ISO 8601 (UTC unless it says else)",
        )


def window_of(arguments: argparse.Namespace) -> Window:
    """Return the window of ``--from`` and ``--to``.

    Raises
    ------
    BillingLogError
        It ends before it starts.
    """
    window = Window(arguments.from_ms, arguments.to_ms)
    if None not in (window.from_ms, window.to_ms) and arguments.from_ms > arguments.to_ms:
        raise BillingLogError("--from is after --to")
    return window


def _time(text: str) -> int:
    try:
        return market_time_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
