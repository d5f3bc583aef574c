"""The command line that benches have in common, and what they do with a run's results."""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import Console

from tests.performance.measured import HISTORY, append
from tests.performance.outside import BenchError
from walras.processes import ProcessError
from walras_launcher import LauncherError

Say = Callable[[str], None]


class Results(Protocol):
    """What a bench measured."""

    def document(self) -> dict[str, Any]:
        """Return the content of the JSON line."""


R = TypeVar("R", bound=Results)


def bench_parser(
    program: str, description: str, parts: Sequence[str], drawn: str
) -> argparse.ArgumentParser:
    """Return the options that every bench has.

    Parameters
    ----------
    program, description
        For the help.
    parts
        What can be measured alone.
    drawn
        What is drawn by the seed.
    """
    parser = argparse.ArgumentParser(prog=program, description=description.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers, below a minute")
    parser.add_argument("--json", action="store_true", help="print one JSON line, no tables")
    parser.add_argument("--seed", type=int, default=1, help=f"of {drawn} (1)")
    parser.add_argument(
        "--only", choices=parts, nargs="+", default=parts, help="measure a part; not recorded"
    )
    parser.add_argument(
        "--history",
        type=Path,
        metavar="FILE",
        help="append the JSON line to this file, whatever was run (docs/bench/history.jsonl, "
        "where everything is measured in full)",
    )
    return parser


def run_bench(
    options: argparse.Namespace,
    measure: Callable[[Say], R],
    show: Callable[[R, Console], None],
    *,
    is_partial: bool,
) -> int:
    """Measure, record and print; return the exit code: 0 measured, 1 not.

    Parameters
    ----------
    options
        Of :func:`bench_parser`.
    measure
        Measures, and says how far it is.
    show
        Prints tables.
    is_partial
        Whether the figures do not belong in the history of all.
    """
    messages = Console(stderr=True, highlight=False, soft_wrap=True)
    # A broker that has just started answers some requests with "not leader yet"; what the client
    # cannot repair by asking again it raises.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

    def say(line: str) -> None:
        messages.print(f"bench: {line}", markup=False)

    try:
        results = measure(say)
    except (BenchError, ProcessError, LauncherError) as error:
        say(f"{error.code}: {error}")
        return 1
    document = results.document()
    history = options.history or (None if is_partial else HISTORY)
    if history is not None:
        append(document, history)
    if options.json:
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        show(results, Console())
    return 0
