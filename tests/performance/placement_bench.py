"""Measures placement, drains and agents, judged by their bounds: `make bench-placement`.

Plans: one stage in this process, no broker. Drains and what an agent costs: the real agent, real
jobs, a broker of its own. `docs/bench/README.md` says how to read the tables.
"""

import argparse
import asyncio
import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time_ns
from typing import Final

if __package__ in {None, ""}:  # started as a script: the checkout is not on the path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.performance.agent_legs import (
    AGENT_PARTS,
    full_agent_plan,
    measure_agent,
    quick_agent_plan,
)
from tests.performance.command import Say, bench_parser, run_bench
from tests.performance.machine import commit, this_machine
from tests.performance.outside import BenchError
from tests.performance.placement_results import PlacementResults, PlanFigures, show
from tests.performance.placement_workload import Fleet
from tests.performance.samples import spread
from walras_contracts.event import Event
from walras_placement.decisions import Plan
from walras_placement.plan import plan
from walras_placement.rules import Moment, Rules
from walras_placement.state import PlacementState
from walras_runtime.collecting import collect_between_steps, collect_when_idle

PLAN_PARTS: Final = ("changes", "prices", "whole")
PARTS: Final = (*PLAN_PARTS, *AGENT_PARTS)
NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What a run measures: how large the fleet is, how many plans of each kind."""

    nodes: int
    leases: int
    waiting: int
    teams: int
    steps: int
    restarts: int
    seed: int


def full_plan(seed: int) -> BenchPlan:
    """Return the run whose figures count."""
    return BenchPlan(10_000, 100_000, 20_000, 1_000, steps=20, restarts=3, seed=seed)


def quick_plan(seed: int) -> BenchPlan:
    """Return a run that only shows that the bench works."""
    return BenchPlan(480, 4_000, 800, 40, steps=3, restarts=1, seed=seed)


class Metered:
    """Plans, and keeps the CPU time of each plan with how many teams it looked at."""

    def __init__(self) -> None:
        self.ms: list[float] = []
        self.teams: list[int] = []

    def __call__(
        self,
        state: PlacementState,
        moment: Moment,
        rules: Rules,
        scope: Sequence[str] | None = None,
    ) -> Plan:
        """Plan a step."""
        began_ns = process_time_ns()
        made = plan(state, moment, rules, scope)
        self.ms.append((process_time_ns() - began_ns) / NS_PER_MS)
        self.teams.append(len(made.outcomes))
        return made


def measure(what: BenchPlan, only: frozenset[str], say: Say) -> dict[str, PlanFigures]:
    """Fill the fleet and measure the parts."""
    metered = Metered()
    fleet = Fleet(what.nodes, what.leases, what.waiting, what.teams, what.seed, metered)
    say(f"starting {what.leases:,} jobs on {what.nodes:,} nodes")
    fleet.fill()
    running = len(fleet.parts)
    # Large gangs do not all find a domain once small jobs have been placed.
    if running < what.leases * 9 // 10:
        raise BenchError(f"only {running:,} of {what.leases:,} leases started")
    figures = {"filling": _figures(metered.ms[:1], metered.teams[:1], [])}
    if "changes" in only:
        say(f"{what.steps} steps with 1 % of it changed")
        figures["changes"] = _steps(fleet, metered, what.steps, lambda: fleet.changes(1))
    if "prices" in only:
        say(f"{what.steps} steps in which every price changes, too")
        figures["prices"] = _steps(
            fleet, metered, what.steps, lambda: [*fleet.new_prices(), *fleet.changes(1)]
        )
    if "whole" in only:
        say(f"{what.restarts} restarts, each with a plan of all teams")
        plans: list[float] = []
        teams: list[int] = []
        steps: list[float] = []
        for _ in range(what.restarts):
            fleet.restart()
            gc.collect()
            before = len(metered.ms)
            began_ns = process_time_ns()
            fleet.step(fleet.changes(1))
            steps.append((process_time_ns() - began_ns) / NS_PER_MS)
            plans += metered.ms[before:]
            teams += metered.teams[before:]
        figures["whole"] = _figures(plans, teams, steps)
    return figures


def _steps(
    fleet: Fleet, metered: Metered, count: int, changed: Callable[[], list[Event]]
) -> PlanFigures:
    before = len(metered.ms)
    steps = []
    for _ in range(count):
        prepared = fleet.prepare(changed())
        began_ns = process_time_ns()
        result = fleet.stage.step(prepared)
        steps.append((process_time_ns() - began_ns) / NS_PER_MS)
        fleet.follow(result)
        collect_when_idle()
    return _figures(metered.ms[before:], metered.teams[before:], steps)


def _figures(plans: list[float], teams: list[int], steps: list[float]) -> PlanFigures:
    return PlanFigures(
        plans=len(plans),
        plan_ms=spread(plans),
        step_ms=spread(steps) if steps else None,
        teams_looked_at=max(teams),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the bench; return the exit code: 0 measured, 1 not."""
    parser = bench_parser("bench-placement", __doc__ or "", PARTS, "jobs, quotas and what changes")
    options = parser.parse_args(argv)
    partial = options.quick or set(options.only) != set(PARTS)
    return run_bench(options, lambda say: _run(options, say), show, is_partial=partial)


def _run(options: argparse.Namespace, say: Say) -> PlacementResults:
    machine = this_machine()
    say(machine.describe())
    # As in the service: garbage is looked for between steps.
    collect_between_steps()
    what = (quick_plan if options.quick else full_plan)(options.seed)
    agent_plan = (quick_agent_plan if options.quick else full_agent_plan)(options.seed)
    only = frozenset(options.only)
    plans = measure(what, only, say) if only & {*PLAN_PARTS} else {}
    drains, agent = None, None
    if only & {*AGENT_PARTS}:
        drains, agent = asyncio.run(measure_agent(agent_plan, only, say))
    head, changed = commit()
    return PlacementResults(
        machine=machine,
        commit=head,
        changed_files=changed,
        quick=options.quick,
        seed=options.seed,
        nodes=what.nodes,
        leases=what.leases,
        waiting=what.waiting,
        teams=what.teams,
        drains=drains,
        agent=agent,
        **plans,
    )


if __name__ == "__main__":
    sys.exit(main())
