"""What a run of the billing bench gave, judged by its bounds: one JSON document, one table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from rich.console import Console
from rich.table import Table

from tests.performance.billing_growth import GrowthFigures
from tests.performance.billing_rate import RateFigures
from tests.performance.billing_restart import RestartFigures
from tests.performance.billing_settlement import SettlementFigures
from tests.performance.measured import RATE_COLUMNS, Measured, rate_cells, show_others
from tests.performance.samples import Spread

LAYOUT: Final = 1
"""Changes when a field of the JSON line changes its meaning."""
LEAST_RATIO: Final = 0.5
LEAST_EVENTS_PER_CPU_S: Final = 100_000
MOST_GROWTH: Final = 1.5
"""Cost of an event at most leases over that at fewest, a hundred times fewer: flat as caches go."""
GROWTH_LEASES: Final = (10_000, 1_000_000)
MOST_SETTLEMENT_MS: Final = 5_000
SETTLEMENT_TEAMS: Final = 100_000
MOST_RESTART_MS: Final = 10_000
RESTART_CHARGES: Final = 1_000_000

Outcome = Literal["met", "missed", "not measured"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A figure beside its bound; None: it was not measured at the size that the bound is about."""

    what: str
    figure: float | None
    bound: float
    is_least: bool = False

    @property
    def outcome(self) -> Outcome:
        """Whether the bound is kept."""
        if self.figure is None:
            return "not measured"
        kept = self.figure >= self.bound if self.is_least else self.figure <= self.bound
        return "met" if kept else "missed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingResults(Measured):
    """All figures of a run, with what they were measured on."""

    rate: RateFigures | None = None
    growth: tuple[GrowthFigures, ...] = ()
    settlement: SettlementFigures | None = None
    restart: RestartFigures | None = None

    def judgements(self) -> tuple[Judgement, ...]:
        """Return the bounds; a quick run keeps and misses none."""
        rate = None if self.quick else self.rate
        cost = {each.leases: each.cpu_us_per_event.median for each in self.growth}
        growth = None
        if all(leases in cost for leases in GROWTH_LEASES):
            growth = round(cost[GROWTH_LEASES[1]] / cost[GROWTH_LEASES[0]], 2)
        settled, restarted = self.settlement, self.restart
        at_size = settled is not None and settled.teams >= SETTLEMENT_TEAMS
        behind = restarted is not None and restarted.charges >= RESTART_CHARGES
        return (
            Judgement(
                "billing ÷ decode and encode, events per CPU s",
                rate.ratio_cpu if rate else None,
                LEAST_RATIO,
                is_least=True,
            ),
            Judgement(
                "events per CPU s of one core (aimed at)",
                rate.billing.events_per_cpu_s.median if rate else None,
                LEAST_EVENTS_PER_CPU_S,
                is_least=True,
            ),
            Judgement("cost of an event, 10⁶ over 10⁴ open leases", growth, MOST_GROWTH),
            Judgement(
                f"settlement of {SETTLEMENT_TEAMS:,} teams, slowest, ms",
                settled.wall_ms.most if settled and at_size else None,
                MOST_SETTLEMENT_MS,
            ),
            Judgement(
                f"restart with {RESTART_CHARGES:,} charges, slowest, ms",
                restarted.wall_ms.most if restarted and behind else None,
                MOST_RESTART_MS,
            ),
        )

    @property
    def others_cores(self) -> float:
        """Cores that other programs kept busy, in the worst of the measurements."""
        rates = (self.rate.billing, self.rate.copy, self.rate.noop) if self.rate else ()
        rest = [each.others_cores for each in (self.settlement, self.restart) if each]
        return max([0.0, *(rate.others_cores for rate in rates), *rest])

    def document(self) -> dict[str, Any]:
        """Return the content of the JSON line."""
        return {
            "layout": LAYOUT,
            "bench": "billing",
            **self.values(),
            "bounds": [{**asdict(j), "outcome": j.outcome} for j in self.judgements()],
        }


def show(results: BillingResults, console: Console) -> None:
    """Print the tables."""
    results.show_head(console)
    if results.rate is not None:
        console.print(_rate_table(results.rate))
    rows = [
        row(f"{g.leases:,} open leases, µs an event", g.cpu_us_per_event) for g in results.growth
    ]
    if results.settlement is not None:
        what = f"settlement of {results.settlement.teams:,} teams, ms"
        rows.append(row(what, results.settlement.wall_ms))
        rows.append(row(f"{what} of CPU", results.settlement.cpu_ms))
    if results.restart is not None:
        what = f"restart with {results.restart.charges:,} charges, ms"
        rows.append(row(what, results.restart.wall_ms))
        rows.append(row(f"{what} of CPU", results.restart.cpu_ms))
    if rows:
        table = Table(title="Costs")
        for name in ("", "median", "least", "most", "spread"):
            table.add_column(name, justify="right")
        for cells in rows:
            table.add_row(*cells)
        console.print(table)
    console.print(bounds_table(results.judgements()))
    show_others(results.others_cores, console)


def _rate_table(figures: RateFigures) -> Table:
    table = Table(
        title=f"Billing on one core: {figures.events_per_run:,} events, {figures.teams} teams\n"
        f"{figures.events_per_barrier:,} a barrier, median of {figures.runs}"
    )
    for name in RATE_COLUMNS:
        table.add_column(name, justify="right")
    named = (("billing", figures.billing), ("decode, encode", figures.copy))
    for name, rate in (*named, ("no-op", figures.noop)):
        table.add_row(name, *rate_cells(rate))
    wall, cpu = f"{figures.ratio_wall:.2f}", f"{figures.ratio_cpu:.2f}"
    table.add_row("÷ decode, encode", wall, "", cpu, "", "")
    wall, cpu = f"{figures.noop_ratio_wall:.2f}", f"{figures.noop_ratio_cpu:.2f}"
    table.add_row("÷ no-op", wall, "", cpu, "", "")
    return table


def row(what: str, figure: Spread) -> list[str]:
    """Return a row of a table of costs."""
    values = [f"{v:,.1f}" for v in (figure.median, figure.least, figure.most)]
    return [what, *values, f"{figure.spread_percent:.0f} %"]


def bounds_table(judgements: Sequence[Judgement]) -> Table:
    """Return the bounds as a table."""
    table = Table(title="Bounds")
    for name in ("", "figure", "bound", "outcome"):
        table.add_column(name, justify="right")
    for each in judgements:
        figure = "–" if each.figure is None else f"{each.figure:,g}"
        sign = "≥" if each.is_least else "≤"
        table.add_row(each.what, figure, f"{sign} {each.bound:,g}", each.outcome)
    return table
