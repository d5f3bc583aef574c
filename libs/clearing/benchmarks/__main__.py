"""Measures the clearing core on this machine and judges it by its bounds: `make bench-clearing`.

`docs/bench/README.md` says how to read the table. Started from the root of the checkout::

    python -m libs.clearing.benchmarks --rows cold-1m warm-team
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from libs.clearing.benchmarks.machine import ROOT, one_thread, this_machine
from libs.clearing.benchmarks.report import Results, RowReport, row_report, show
from libs.clearing.benchmarks.rows import ROWS
from tests.performance.machine import commit
from tests.performance.measured import HISTORY, append

PAGE_WIDTH = 160
ROW_LIMIT_S = 900
"""Longest time of a row; a solver that never returns must not hold the others up."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; return the exit code: 0 measured, 1 a row gave no figure."""
    options = _parser().parse_args(argv)
    messages = Console(stderr=True, highlight=False, soft_wrap=True)
    machine = this_machine()
    messages.print(f"bench: {machine.describe()}", markup=False)
    head, changed = commit()
    rows = []
    for number, row in enumerate(options.rows, start=1):
        messages.print(f"bench: row {number} of {len(options.rows)}: {row}", markup=False)
        report = _measured(row, seed=options.seed, quick=options.quick)
        rows.append(report)
        for figure in report.figures:
            value = "" if figure.value is None else f"{figure.value:,g} {figure.unit}, "
            line = f"bench:   {figure.work}: {value}{figure.bound}: {figure.outcome}"
            messages.print(line, markup=False)
        if report.error:
            messages.print(f"bench:   {report.error}", markup=False)
    results = Results(machine, head, changed, options.quick, options.seed, tuple(rows))
    partial = options.quick or set(options.rows) != set(ROWS)
    history = options.history or (None if partial else HISTORY)
    if history is not None:
        append(results.document(), history)
    if options.json:
        sys.stdout.write(json.dumps(results.document()) + "\n")
    else:
        console = Console()
        show(results, console if console.is_terminal else Console(width=PAGE_WIDTH))
    return int(any(report.error for report in rows))


def _measured(row: str, *, seed: int, quick: bool) -> RowReport:
    """Measure a row in a process of its own."""
    program = [sys.executable, "-m", "libs.clearing.benchmarks.measure", row, "--seed", str(seed)]
    try:
        done = subprocess.run(
            [*program, *(["--quick"] if quick else [])],
            cwd=ROOT,
            env={**os.environ, **one_thread()},
            capture_output=True,
            text=True,
            timeout=ROW_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return RowReport(row, (), 0.0, f"no figure within {ROW_LIMIT_S} s")
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"ended with {done.returncode}"]
        return RowReport(row, (), 0.0, last[0])
    return row_report(json.loads(done.stdout.splitlines()[-1]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench-clearing", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="small numbers, below a minute")
    parser.add_argument("--json", action="store_true", help="print one JSON line, no table")
    parser.add_argument("--seed", type=int, default=1, help="of the markets (1)")
    parser.add_argument(
        "--rows",
        choices=tuple(ROWS),
        nargs="+",
        default=tuple(ROWS),
        metavar="ROW",
        help=f"only these, not recorded: {', '.join(ROWS)}",
    )
    parser.add_argument(
        "--history",
        type=Path,
        metavar="FILE",
        help="append the JSON line to this file, whatever was run (docs/bench/history.jsonl, "
        "where everything is measured in full)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
