"""The figures of the whole cycle at fleet scale as tables."""

from rich.console import Console
from rich.table import Table

from tests.performance.fleet_figures import FleetFigures


def show_fleet(all_figures: tuple[FleetFigures, ...], console: Console) -> None:
    """Print what was measured, and whether the bound holds."""
    console.print(_time_table(all_figures))
    console.print(_cost_table(all_figures))
    for f in all_figures:
        console.print(
            f"{f.jobs:,} jobs of {f.teams:,} teams in {f.pools} pools, {f.markets} market(s); "
            f"{f.changed_jobs_per_cycle:,} jobs and at least {f.bids_changed_ppm_least / 10_000:g} "
            f"% of the bids changed per cycle: bound {f.bound} ({f.why})",
            highlight=False,
            soft_wrap=True,
        )


def _time_table(all_figures: tuple[FleetFigures, ...]) -> Table:
    table = Table(
        title="Whole cycle, barrier → committed prices and quotas, ms\n"
        "of it at p50: decide (most), commit (most), deliver; key: the slowest key-frame cycle"
    )
    names = ("jobs", "cycles", "p50", "p95", "p99", "most", "key", "decide", "commit", "deliver")
    for name in (*names, "spread", "others, cores"):
        table.add_column(name, justify="right")
    for f in all_figures:
        table.add_row(
            f"{f.jobs:,}",
            str(f.cycles),
            f"{f.p50_ms:,.0f}",
            f"{f.p95_ms:,.0f}",
            "–" if f.p99_ms is None else f"{f.p99_ms:,.0f}",
            f"{f.most_ms:,.0f}",
            f"{max(f.key_frames_ms):,.0f}" if f.key_frames_ms else "–",
            f"{f.decide_p50_ms:,.0f} ({f.decide_most_ms:,.0f})",
            f"{f.commit_p50_ms:,.0f} ({f.commit_most_ms:,.0f})",
            f"{f.deliver_p50_ms:,.0f}",
            f"{f.spread_percent:.0f} %",
            f"{f.others_cores:.2f}",
        )
    return table


def _cost_table(all_figures: tuple[FleetFigures, ...]) -> Table:
    cpu = list(all_figures[0].cpu_ms_per_cycle)
    table = Table(title="CPU per cycle, ms; clearing's memory, MiB; its restart, s (CPU s)")
    for name in ("jobs", *cpu, "memory", "most", "restart"):
        table.add_column(name, justify="right")
    for f in all_figures:
        table.add_row(
            f"{f.jobs:,}",
            *(f"{f.cpu_ms_per_cycle[name]:,.0f}" for name in cpu),
            f"{f.memory_mib:,.0f}",
            f"{f.memory_most_mib:,.0f}",
            f"{f.restore_s:.1f} ({f.restore_cpu_s:.1f})",
        )
    return table
