"""What a run of the placement bench gave, judged by its bounds: one JSON document, one table."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.performance.billing_results import Judgement, bounds_table, row
from tests.performance.measured import Measured
from tests.performance.samples import Spread

LAYOUT: Final = 1
"""Changes when a field of the JSON line changes its meaning."""
NODES: Final = 10_000
LEASES: Final = 100_000
MOST_PARTIAL_MS: Final = 200
MOST_WHOLE_MS: Final = 2_000


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
    filling: PlanFigures
    changes: PlanFigures | None = None
    prices: PlanFigures | None = None
    whole: PlanFigures | None = None

    def judgements(self) -> tuple[Judgement, ...]:
        """Return the bounds; a quick run keeps and misses none."""
        at_size = not self.quick and self.nodes >= NODES and self.leases >= LEASES
        changes = self.changes if at_size else None
        whole = self.whole if at_size else None
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
    console.print(table)
    console.print(bounds_table(results.judgements()))
