"""Measures Walras on this machine: `make bench`, or this file as a script. Nothing is asserted.

Figures: events per second of intake on one core, and the time from a barrier to committed quotas at
several lengths of the queue. `docs/bench/README.md` says how to read them.
"""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in {None, ""}:  # started as a script: the checkout is not on the path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console

from tests.performance.cycle_time import CyclePlan, measure_cycles
from tests.performance.intake_rate import IntakePlan, measure_intake
from tests.performance.machine import commit, this_machine
from tests.performance.outside import BenchError
from tests.performance.results import HISTORY, Results, append, show
from walras.processes import ProcessError
from walras_launcher import LauncherError

PARTS = ("intake", "cycles")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run measures: the intake run, and jobs, settling cycles, timed cycles per size."""

    intake: IntakePlan
    cycles: tuple[CyclePlan, ...]


def full_plan(seed: int) -> Plan:
    """Return the run whose figures count."""
    return Plan(
        IntakePlan(events=100_000, batch=5_000, warm_up=2, teams_per_pool=4, runs=3, seed=seed),
        (
            CyclePlan(jobs=1_000, settle=5, cycles=100, seed=seed),
            CyclePlan(jobs=10_000, settle=5, cycles=100, seed=seed),
            CyclePlan(jobs=100_000, settle=2, cycles=15, seed=seed),
        ),
    )


def quick_plan(seed: int) -> Plan:
    """Return a run that only shows that the bench works."""
    return Plan(
        IntakePlan(
            events=2_000, batch=500, warm_up=1, teams_per_pool=4, runs=1, seed=seed, jit="c1"
        ),
        (CyclePlan(jobs=400, settle=1, cycles=5, seed=seed, jit="c1"),),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; return the exit code: 0 done, 1 not."""
    options = _parser().parse_args(argv)
    messages = Console(stderr=True, highlight=False, soft_wrap=True)
    # A broker that has just started answers some requests with "not leader yet"; what the client
    # cannot repair by asking again it raises.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        results = _run(options, messages)
    except (BenchError, ProcessError, LauncherError) as error:
        messages.print(f"bench: {error.code}: {error}", markup=False)
        return 1
    document = results.document()
    history = options.history or (None if _is_partial(options) else HISTORY)
    if history is not None:
        append(document, history)
    if options.json:
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        show(results, Console())
    return 0


def _run(options: argparse.Namespace, messages: Console) -> Results:
    def say(line: str) -> None:
        messages.print(f"bench: {line}", markup=False)

    machine = this_machine()
    say(machine.describe())
    plan = (quick_plan if options.quick else full_plan)(options.seed)
    sizes = plan.cycles if options.jobs is None else _of_sizes(plan.cycles, options.jobs)
    head, changed = commit()
    return Results(
        machine=machine,
        commit=head,
        changed_files=changed,
        quick=options.quick,
        seed=options.seed,
        intake=measure_intake(plan.intake, say) if "intake" in options.only else None,
        cycles=tuple(measure_cycles(each, say) for each in sizes if "cycles" in options.only),
    )


def _of_sizes(plans: tuple[CyclePlan, ...], wanted: Sequence[int]) -> tuple[CyclePlan, ...]:
    return tuple(plan for plan in plans if plan.jobs in wanted)


def _is_partial(options: argparse.Namespace) -> bool:
    """Whether the run's figures do not belong in the history of all."""
    return options.quick or set(options.only) != set(PARTS) or options.jobs is not None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small numbers, below a minute")
    parser.add_argument("--json", action="store_true", help="print one JSON line, no tables")
    parser.add_argument("--seed", type=int, default=1, help="of jobs and limits (1)")
    parser.add_argument(
        "--only", choices=PARTS, nargs="+", default=PARTS, help="measure a part; not recorded"
    )
    parser.add_argument(
        "--jobs", type=int, nargs="+", metavar="N", help="only these queue lengths; not recorded"
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
