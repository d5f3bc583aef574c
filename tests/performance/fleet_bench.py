"""Measures the whole cycle at fleet scale alone: `python -m tests.performance.fleet_bench`.

`make bench` measures the same with the sizes of its bound. Nothing is asserted.
"""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in {None, ""}:  # started as a script: the checkout is not on the path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console

from tests.performance.fleet_cycle import measure_fleet
from tests.performance.fleet_figures import FleetPlan
from tests.performance.machine import commit, this_machine
from tests.performance.measured import HISTORY, append
from tests.performance.outside import BenchError
from tests.performance.results import Results, show
from walras.processes import ProcessError
from walras_launcher import LauncherError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; return the exit code: 0 done, 1 not."""
    options = _parser().parse_args(argv)
    messages = Console(stderr=True, highlight=False, soft_wrap=True)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

    def say(line: str) -> None:
        messages.print(f"fleet: {line}", markup=False)

    machine = this_machine()
    say(machine.describe())
    plan = FleetPlan(
        jobs=options.jobs,
        teams=options.teams,
        pools=options.pools,
        markets=options.markets,
        settle=options.settle,
        cycles=options.cycles,
        seed=options.seed,
    )
    try:
        figures = measure_fleet(plan, say, options.profile and options.profile.resolve())
    except (BenchError, ProcessError, LauncherError) as error:
        say(f"{error.code}: {error}")
        return 1
    head, changed = commit()
    results = Results(
        machine=machine,
        commit=head,
        changed_files=changed,
        quick=False,
        seed=options.seed,
        intake=None,
        cycles=(),
        fleet=(figures,),
    )
    if options.record:
        append(results.document(), HISTORY)
    if options.json:
        sys.stdout.write(json.dumps(results.document()) + "\n")
    else:
        show(results, Console())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fleet_bench", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--jobs", type=int, default=1_000_000, help="in the queue (1000000)")
    parser.add_argument("--teams", type=int, default=10_000, help="that own them (10000)")
    parser.add_argument("--pools", type=int, default=50, help="of the teams (50)")
    parser.add_argument(
        "--markets", type=int, choices=(1, 2, 3), default=1, help="each job accepts all (1)"
    )
    parser.add_argument("--settle", type=int, default=3, help="cycles that do not count (3)")
    parser.add_argument("--cycles", type=int, default=120, help="cycles that count (120)")
    parser.add_argument("--seed", type=int, default=1, help="of all draws (1)")
    parser.add_argument("--json", action="store_true", help="print one JSON line, no tables")
    parser.add_argument("--record", action="store_true", help=f"append the line to {HISTORY.name}")
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="sample the service's stacks in the cycles that count and write them there, a line "
        "each, as flame graphs are drawn from",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
