"""``walras archive``: the cycles of a log into Parquet files."""

import argparse
import json
import os
from pathlib import Path
from typing import Final

from walras.archive.directory import Archive
from walras.archive.log_source import cycles_of_log
from walras.archive.progress import progress_bar
from walras.archive.recorded_cycle import ArchiveError
from walras.archive.storing import Stored, store
from walras.instance_arguments import say
from walras_contracts.quantities import NUMBER_MAX

EXIT_STORED: Final = 0
EXIT_MISSING: Final = 1
EXIT_BAD_INPUT: Final = 2

DESCRIPTION: Final = """\
Keep the cycles of a log in Parquet files, one a market and day of market time (UTC):
DIR/MARKET/YYYY-MM-DD.parquet. Reads committed records up to the last barrier that both topics show;
a run adds what is not there yet and changes nothing else, so it can be repeated and resumed.
`walras replay DIR` reads the files; so does anything that reads Parquet."""

EPILOG: Final = """\
exit codes: 0 all cycles are in the archive; 1 all whole ones are, but the log misses others or a
part of them (named); 2 bad input: no broker, topics that are not Walras', an archive of another
log."""


def add_archive_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``archive`` command."""
    parser = subparsers.add_parser(
        "archive",
        help="keep the cycles of a log in Parquet files",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--bootstrap",
        default=os.environ.get("WALRAS_KAFKA_BOOTSTRAP"),
        help="broker, host:port (default: WALRAS_KAFKA_BOOTSTRAP)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("cycles-archive"),
        metavar="DIR",
        help="the archive (default: %(default)s)",
    )
    add_cycle_bounds(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run_archive)


def add_cycle_bounds(parser: argparse.ArgumentParser) -> None:
    """Add ``--from`` and ``--to``, read by :func:`cycle_bounds`."""
    for name, words in (("--from", "first"), ("--to", "last")):
        parser.add_argument(
            name, dest=f"{words}_cycle", type=_number, metavar="CYCLE", help=f"{words} cycle"
        )


def cycle_bounds(arguments: argparse.Namespace) -> range:
    """Return the cycles between ``--from`` and ``--to``, both included."""
    first = arguments.first_cycle or 0
    last = NUMBER_MAX if arguments.last_cycle is None else arguments.last_cycle
    return range(first, last + 1)


def run_archive(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    if arguments.bootstrap is None:
        return refuse("archive", "name a broker with --bootstrap")
    archive = Archive(arguments.out)
    try:
        with progress_bar("reading cycles") as progress:
            stored = store(
                cycles_of_log(arguments.bootstrap, progress), archive, cycle_bounds(arguments)
            )
    except ArchiveError as error:
        return refuse("archive", str(error))
    except OSError as error:
        return refuse("archive", f"{arguments.out}: {error.strerror or error}")
    if arguments.json:
        print(json.dumps({"archive": str(archive.root), **stored.document()}))
    else:
        print("\n".join(_lines(archive, stored)))
    return EXIT_MISSING if stored.missing else EXIT_STORED


def refuse(command: str, reason: str) -> int:
    """Say in one line on standard error why a command does nothing; return its exit code."""
    say(f"walras {command}: {reason}")
    return EXIT_BAD_INPUT


def _lines(archive: Archive, stored: Stored) -> list[str]:
    lines = ["nothing to keep: the log has no whole cycle of those asked for"]
    if stored.cycles:
        words = (
            f"cycles {stored.first_cycle} to {stored.last_cycle} of {len(stored.cycles)} markets"
        )
        events = f"{stored.events_added} events added, {stored.events_known} known"
        lines = [f"{archive.root}: {words}, {events}, {stored.files_written} files written"]
    if stored.cut:
        lines.append(f"retention has taken parts of the oldest cycles: {stored.cut} left out")
    lines += [f"left out: market {m}, cycle {n}: {why}" for m, n, why in stored.missing]
    return lines


def _number(text: str) -> int:
    value = int(text)
    if not 0 <= value <= NUMBER_MAX:
        raise argparse.ArgumentTypeError(f"must be from 0 to {NUMBER_MAX}")
    return value
