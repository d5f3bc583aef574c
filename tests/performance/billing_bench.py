"""Measures billing on this machine and judges it by its bounds: `make bench-billing`.

`docs/bench/README.md` says how to read the tables.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

if __package__ in {None, ""}:  # started as a script: the checkout is not on the path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.performance.billing_growth import GrowthPlan, measure_growth
from tests.performance.billing_rate import RatePlan, measure_rate
from tests.performance.billing_restart import RestartPlan, measure_restart
from tests.performance.billing_results import BillingResults, show
from tests.performance.billing_settlement import SettlementPlan, measure_settlement
from tests.performance.command import Say, bench_parser, run_bench
from tests.performance.machine import commit, this_machine

PARTS: Final = ("rate", "growth", "settlement", "restart")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run measures."""

    rate: RatePlan
    growth: GrowthPlan
    settlement: SettlementPlan
    restart: RestartPlan


def full_plan(seed: int) -> Plan:
    """Return the run whose figures count."""
    return Plan(
        RatePlan(leases=20_000, minutes=20, warm_up=2, teams=400, pools=20, runs=5, seed=seed),
        GrowthPlan(
            leases=(10_000, 100_000, 1_000_000),
            events=10_000,
            settle=3,
            steps=25,
            teams=400,
            pools=20,
            seed=seed,
        ),
        SettlementPlan(teams=100_000, pools=100, settlements=4, seed=seed),
        RestartPlan(leases=50_000, minutes=20, teams=400, pools=20, starts=3, seed=seed),
    )


def quick_plan(seed: int) -> Plan:
    """Return a run that only shows that the bench works."""
    return Plan(
        RatePlan(leases=500, minutes=3, warm_up=1, teams=20, pools=4, runs=1, seed=seed, jit="c1"),
        GrowthPlan(
            leases=(200, 1_000), events=100, settle=1, steps=3, teams=20, pools=4, seed=seed
        ),
        SettlementPlan(teams=200, pools=4, settlements=2, seed=seed, jit="c1"),
        RestartPlan(leases=300, minutes=3, teams=20, pools=4, starts=1, seed=seed, jit="c1"),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; return the exit code: 0 measured, 1 not."""
    parser = bench_parser("bench-billing", __doc__ or "", PARTS, "leases and limits")
    options = parser.parse_args(argv)
    partial = options.quick or set(options.only) != set(PARTS)
    return run_bench(options, lambda say: _run(options, say), show, is_partial=partial)


def _run(options: argparse.Namespace, say: Say) -> BillingResults:
    machine = this_machine()
    say(machine.describe())
    plan = (quick_plan if options.quick else full_plan)(options.seed)
    only = frozenset(options.only)
    head, changed = commit()
    return BillingResults(
        machine=machine,
        commit=head,
        changed_files=changed,
        quick=options.quick,
        seed=options.seed,
        rate=measure_rate(plan.rate, say) if "rate" in only else None,
        growth=measure_growth(plan.growth, say) if "growth" in only else (),
        settlement=measure_settlement(plan.settlement, say) if "settlement" in only else None,
        restart=measure_restart(plan.restart, say) if "restart" in only else None,
    )


if __name__ == "__main__":
    sys.exit(main())
