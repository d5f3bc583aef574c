"""Measures Walras on this machine: `make bench`, or this file as a script. Nothing is asserted.

Figures: events per second of intake on one core, the time from a barrier to committed quotas at
several lengths of the queue, and the whole cycle at fleet scale. `docs/bench/README.md` says how to
read them.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in {None, ""}:  # started as a script: the checkout is not on the path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.performance.command import Say, bench_parser, run_bench
from tests.performance.cycle_time import CyclePlan, measure_cycles
from tests.performance.fleet_cycle import measure_fleet
from tests.performance.fleet_figures import FleetPlan
from tests.performance.intake_rate import IntakePlan, measure_intake
from tests.performance.machine import commit, this_machine
from tests.performance.results import Results, show

PARTS = ("intake", "cycles", "fleet")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run measures: the intake run, cycles per length of the queue, the fleet."""

    intake: IntakePlan
    cycles: tuple[CyclePlan, ...]
    fleet: tuple[FleetPlan, ...]


def full_plan(seed: int) -> Plan:
    """Return the run whose figures count."""
    return Plan(
        IntakePlan(events=100_000, batch=5_000, warm_up=2, teams_per_pool=4, runs=3, seed=seed),
        (
            CyclePlan(jobs=1_000, settle=5, cycles=100, seed=seed),
            CyclePlan(jobs=10_000, settle=5, cycles=100, seed=seed),
            CyclePlan(jobs=100_000, settle=2, cycles=15, seed=seed),
        ),
        (
            FleetPlan(
                jobs=1_000_000, teams=10_000, pools=50, markets=1, settle=3, cycles=120, seed=seed
            ),
        ),
    )


def quick_plan(seed: int) -> Plan:
    """Return a run that only shows that the bench works."""
    return Plan(
        IntakePlan(
            events=2_000, batch=500, warm_up=1, teams_per_pool=4, runs=1, seed=seed, jit="c1"
        ),
        (CyclePlan(jobs=400, settle=1, cycles=5, seed=seed, jit="c1"),),
        (
            FleetPlan(
                jobs=10_000, teams=200, pools=10, markets=2, settle=1, cycles=5, seed=seed, jit="c1"
            ),
        ),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; return the exit code: 0 done, 1 not."""
    parser = bench_parser("bench", __doc__ or "", PARTS, "jobs and limits")
    parser.add_argument(
        "--jobs", type=int, nargs="+", metavar="N", help="only these queue lengths; not recorded"
    )
    options = parser.parse_args(argv)
    partial = options.quick or set(options.only) != set(PARTS) or options.jobs is not None
    return run_bench(options, lambda say: _run(options, say), show, is_partial=partial)


def _run(options: argparse.Namespace, say: Say) -> Results:
    machine = this_machine()
    say(machine.describe())
    plan = (quick_plan if options.quick else full_plan)(options.seed)
    sizes, fleets = plan.cycles, plan.fleet
    if options.jobs is not None:
        sizes = tuple(each for each in sizes if each.jobs in options.jobs)
        fleets = tuple(each for each in fleets if each.jobs in options.jobs)
    head, changed = commit()
    return Results(
        machine=machine,
        commit=head,
        changed_files=changed,
        quick=options.quick,
        seed=options.seed,
        intake=measure_intake(plan.intake, say) if "intake" in options.only else None,
        cycles=tuple(measure_cycles(each, say) for each in sizes if "cycles" in options.only),
        fleet=tuple(measure_fleet(each, say) for each in fleets if "fleet" in options.only),
    )


if __name__ == "__main__":
    sys.exit(main())
