"""What a run gave: as one JSON document, as tables, as a line of the history."""

from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from tests.performance.cycle_time import CycleFigures
from tests.performance.fleet_figures import FleetFigures
from tests.performance.fleet_report import show_fleet
from tests.performance.intake_rate import IntakeFigures
from tests.performance.measured import RATE_COLUMNS, Measured, rate_cells, show_others

LAYOUT = 1
"""Changes when a field of the JSON line changes its meaning."""
GOAL_JOBS = 10_000
GOAL_MS = 1_000

Goal = Literal["met", "missed", "not measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Measured):
    """All figures of a run, with what they were measured on."""

    intake: IntakeFigures | None
    cycles: tuple[CycleFigures, ...]
    fleet: tuple[FleetFigures, ...] = ()

    @property
    def goal(self) -> Goal:
        """Whether the median at 10,000 jobs is below one second."""
        for figures in self.cycles:
            if figures.jobs == GOAL_JOBS:
                return "met" if figures.p50_ms < GOAL_MS else "missed"
        return "not measured"

    @property
    def others_cores(self) -> float:
        """Cores that other programs kept busy, in the worst of the measurements."""
        rates = (self.intake.intake, self.intake.rival) if self.intake else ()
        of_cycles = [run.others_cores for run in self.cycles]
        of_fleet = [run.others_cores for run in self.fleet]
        return max([0.0, *(r.others_cores for r in rates), *of_cycles, *of_fleet])

    def document(self) -> dict[str, Any]:
        """Return the content of the JSON line."""
        return {
            "layout": LAYOUT,
            **self.values(),
            "p50_at_10000_jobs_below_1_s": self.goal,
        }


def show(results: Results, console: Console) -> None:
    """Print the tables."""
    results.show_head(console)
    if results.intake is not None:
        console.print(_intake_table(results.intake))
    if results.cycles:
        console.print(_cycle_table(results.cycles))
        console.print(_cpu_table(results.cycles))
    if results.fleet:
        show_fleet(results.fleet, console)
    show_others(results.others_cores, console)
    console.print(f"p50 at {GOAL_JOBS:,} queued jobs below {GOAL_MS / 1000:g} s: {results.goal}")


def _intake_table(figures: IntakeFigures) -> Table:
    table = Table(
        title=f"Intake on one core: {figures.events_per_run:,} submissions, {figures.teams} teams\n"
        f"{figures.batch:,} a barrier, median of {figures.runs}"
    )
    for name in RATE_COLUMNS:
        table.add_column(name, justify="right")
    for name, rate in (("intake", figures.intake), ("decode, encode", figures.rival)):
        table.add_row(name, *rate_cells(rate))
    table.add_row("ratio", f"{figures.ratio_wall:.2f}", "", f"{figures.ratio_cpu:.2f}", "", "")
    return table


def _cycle_table(all_figures: tuple[CycleFigures, ...]) -> Table:
    table = Table(
        title="Barrier → committed quotas, ms; one job in 100 changed per cycle\n"
        "of it at p50: intake committed, clearing decided, clearing committed"
    )
    names = ("jobs", "cycles", "p50", "p99", "most", "intake", "decide", "commit")
    for name in (*names, "others, cores"):
        table.add_column(name, justify="right")
    for f in all_figures:
        table.add_row(
            f"{f.jobs:,}",
            str(f.cycles),
            f"{f.p50_ms:,.0f}",
            "–" if f.p99_ms is None else f"{f.p99_ms:,.0f}",
            f"{f.most_ms:,.0f}",
            f"{f.intake_p50_ms:,.0f}",
            f"{f.clearing_decide_p50_ms:,.0f}",
            f"{f.clearing_commit_p50_ms:,.0f}",
            f"{f.others_cores:.2f}",
        )
    return table


def _cpu_table(all_figures: tuple[CycleFigures, ...]) -> Table:
    names = list(all_figures[0].cpu_ms_per_cycle)
    table = Table(title="CPU per cycle, ms")
    for name in ("jobs", *names):
        table.add_column(name, justify="right")
    for f in all_figures:
        table.add_row(f"{f.jobs:,}", *(f"{f.cpu_ms_per_cycle[name]:,.0f}" for name in names))
    return table
