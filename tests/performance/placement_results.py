"""What a run of the placement bench gave, judged by its bounds: one JSON document, one table."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.performance.agent_load import PPM, AgentFigures
from tests.performance.billing_results import Judgement, bounds_table, row
from tests.performance.drain_latency import DrainFigures, Latency
from tests.performance.measured import Measured, show_others
from tests.performance.samples import Spread

LAYOUT: Final = 1
"""Changes when a field of the JSON line changes its meaning."""
NODES: Final = 10_000
LEASES: Final = 100_000
MOST_PARTIAL_MS: Final = 200
MOST_WHOLE_MS: Final = 2_000
KEPT_LEASES: Final = 100
KEPT_S: Final = 60.0
"""Use is cut once a minute: less would leave that out."""
MOST_AGENT_PERCENT: Final = 3.0


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """CPU time of plans, and of the steps that they are part of."""

    plans: int
    plan_ms: Spread
    step_ms: Spread | None
    """Folding and records included, decoding, wire and broker not."""
    teams_looked_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementResults(Measured):
    """All figures of a run, with what they were measured on."""

    nodes: int
    leases: int
    waiting: int
    teams: int
    filling: PlanFigures | None = None
    changes: PlanFigures | None = None
    prices: PlanFigures | None = None
    whole: PlanFigures | None = None
    drains: DrainFigures | None = None
    agent: AgentFigures | None = None

    def judgements(self) -> tuple[Judgement, ...]:
        """Return the bounds; a quick run keeps and misses none."""
        at_size = not self.quick and self.nodes >= NODES and self.leases >= LEASES
        changes = self.changes if at_size else None
        whole = self.whole if at_size else None
        agent = None if self.quick else self.agent
        if agent is not None and (agent.leases < KEPT_LEASES or agent.wall_s < KEPT_S):
            agent = None
        return (
            Judgement(
                "a plan with 1 % changed, slowest, ms of CPU",
                changes.plan_ms.most if changes else None,
                MOST_PARTIAL_MS,
            ),
            Judgement(
                "a plan of all teams after a restart, slowest, ms of CPU",
                whole.plan_ms.most if whole else None,
                MOST_WHOLE_MS,
            ),
            Judgement(
                f"an agent that keeps {KEPT_LEASES} leases, % of a core",
                round(agent.agent_ppm * 100 / PPM, 2) if agent else None,
                MOST_AGENT_PERCENT,
            ),
        )

    def document(self) -> dict[str, Any]:
        """Return the content of the JSON line."""
        return {
            "layout": LAYOUT,
            "bench": "placement",
            **self.values(),
            "bounds": [{**asdict(j), "outcome": j.outcome} for j in self.judgements()],
        }


def show(results: PlacementResults, console: Console) -> None:
    """Print the tables."""
    results.show_head(console)
    if results.filling is not None:
        console.print(_plans(results))
    if results.drains is not None:
        console.print(_drains(results.drains))
    if results.agent is not None:
        console.print(_agent(results.agent))
        show_others(results.agent.others_cores, console)
    console.print(bounds_table(results.judgements()))


def _plans(results: PlacementResults) -> Table:
    table = Table(
        title=f"Placement: {results.nodes:,} nodes, {results.leases:,} leases, "
        f"{results.waiting:,} jobs waiting, {results.teams:,} teams; CPU ms"
    )
    for name in ("", "median", "least", "most", "spread"):
        table.add_column(name, justify="right")
    for name, figures in (
        ("all start in one plan", results.filling),
        ("1 % changed", results.changes),
        ("1 % and every price changed", results.prices),
        ("all teams, after a restart", results.whole),
    ):
        if figures is not None:
            table.add_row(*row(f"{name}: plan", figures.plan_ms))
            if figures.step_ms is not None:
                table.add_row(*row(f"{name}: step", figures.step_ms))
    return table


def _drains(figures: DrainFigures) -> Table:
    table = Table(title=f"{figures.drains:,} drains of real jobs; ms by the clock")
    for name in ("", "p50", "p99", "most"):
        table.add_column(name, justify="right")

    def add(name: str, times: Latency) -> None:
        top = "-" if times.p99_ms is None else f"{times.p99_ms:,.1f}"
        table.add_row(name, f"{times.p50_ms:,.1f}", top, f"{times.most_ms:,.1f}")

    add("the jobs' own time, signal to end", figures.own)
    add("beyond it, signal to freed, at the agent", figures.agent)
    add("beyond it, command committed to freed read", figures.log)
    return table


def _agent(figures: AgentFigures) -> Table:
    table = Table(
        title=f"An agent that keeps {figures.leases:,} leases for {figures.wall_s:,.0f} s; "
        f"{figures.heartbeats} heartbeats, {figures.usage_records:,} usage records"
    )
    table.add_column("")
    table.add_column("% of a core", justify="right")
    table.add_row("the agent", f"{figures.agent_ppm * 100 / PPM:.2f}")
    table.add_row(f"its {figures.keepers:,} keepers", f"{figures.keepers_ppm * 100 / PPM:.2f}")
    return table
