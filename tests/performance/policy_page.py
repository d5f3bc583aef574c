"""What a comparison of policies gave: tables for the terminal, one page with bars, one document."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.performance.measured import Measured
from tests.performance.policy_figures import GROUPS, Figure, RunFigures, same_decisions
from walras.report.bars import Bar, Group, bar_chart
from walras.report.charts import PALETTE
from walras.report.style import CSS
from walras.report.tables import html_table
from walras.report.write import HTML_NAME
from walras_contracts.accounts import Rounding

RUN_HEADS: Final = ("Rounding", "Retention")
WIDTH: Final = 140
"""Columns of characters that the tables need."""
LAYOUT: Final = 1
"""Changes when a field of the document changes its meaning."""
JSON_FILE: Final = "comparison.json"
HTML_FILE: Final = "comparison.html"
COLORS: Final = {Rounding.BACKFILL: 0, Rounding.RESERVE: 1, Rounding.RELEASE: 2}
HOW: Final = (
    "Each run replays the same trace with the same draws; only the rounding policy of all markets "
    "and the retention gap differ. The services' stages decide on a log in memory; the figures are "
    "those of each run's report, whose definitions hold here too. Mean and most reference price: "
    "over the markets, of the means and of the maxima."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Measured):
    """All runs of a comparison, with what they were measured on."""

    scenario: str
    hours: int
    workers: int
    seconds: int
    runs: tuple[RunFigures, ...]

    def document(self) -> dict[str, Any]:
        """Return the content of the JSON file."""
        values = self.values()
        values["runs"] = [found.document() for found in self.runs]
        same = [list(names) for names in same_decisions(self.runs)]
        return {"layout": LAYOUT, "bench": "policies", **values, "same_decisions": same}

    def notes(self) -> list[str]:
        """Return what has to be said beside the tables."""
        took = ", ".join(f"{found.seconds} s" for found in self.runs)
        whole = (
            f"{self.hours} h of {self.scenario}, {self.workers} runs at a time: {self.seconds} s "
            f"({took} by run)"
        )
        same = (f"decided the same: {', '.join(names)}" for names in same_decisions(self.runs))
        return [whole, *same]


def show(results: Comparison, console: Console) -> None:
    """Print the tables."""
    results.show_head(console)
    for title, figures in GROUPS.items():
        table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), title_justify="left")
        rows = [_cells(found, figures) for found in results.runs]
        heads = (*RUN_HEADS, *(figure.title for figure in figures))
        for number, head in enumerate(heads):
            words = [*(row[number] for row in rows), *head.split()]
            table.add_column(
                head,
                justify="left" if number < len(RUN_HEADS) else "right",
                vertical="bottom",
                min_width=max(len(word) for word in words),
            )
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for note in results.notes():
        console.print(note, highlight=False, soft_wrap=True)


def write(results: Comparison, folder: Path) -> tuple[Path, Path]:
    """Write document and page; return their paths."""
    document, page = folder / JSON_FILE, folder / HTML_FILE
    document.write_text(json.dumps(results.document(), indent=1) + "\n", "utf-8")
    page.write_text(comparison_page(results), "utf-8")
    return document, page


def comparison_page(results: Comparison) -> str:
    """Return the page; it loads nothing, and leads to the reports of the runs."""
    machine = escape(results.machine.describe())
    links = " · ".join(
        f'<a href="{escape(found.run.name)}/{HTML_NAME}">{escape(found.run.name)}</a>'
        for found in results.runs
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in (HOW, *results.notes()))
    head = (
        f"<h1>Rounding policies, with and without retention</h1><p class='sub'>"
        f"{escape(results.scenario)} · seed {results.seed} · {results.hours} h · commit "
        f"{escape(results.commit or 'unknown')}{' with changed files' * results.changed_files}<br>"
        f"{machine}</p><p class='sub'>Reports of the runs: {links}</p>"
    )
    sections = "".join(
        f"<section><h2>{escape(title)}</h2>{_table(results.runs, figures)}"
        f'<div class="grid3" style="margin-top:14px">'
        f"{''.join(_picture(results.runs, figure) for figure in figures)}</div></section>"
        for title, figures in GROUPS.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Walras: policies compared</title><style>{CSS}</style></head>"
        f"<body><main>{head}<section><h2>How</h2>{notes}</section>{sections}"
        "</main></body></html>\n"
    )


def _cells(found: RunFigures, figures: Sequence[Figure]) -> list[str]:
    values = (figure.told(found.values[figure.name]) for figure in figures)
    return [found.run.rounding.value, found.run.retention, *values]


def _table(runs: Sequence[RunFigures], figures: Sequence[Figure]) -> str:
    heads = (*RUN_HEADS, *(figure.title for figure in figures))
    rows = [_cells(found, figures) for found in runs]
    return html_table(heads, rows, len(RUN_HEADS), set())


def _picture(runs: Sequence[RunFigures], figure: Figure) -> str:
    groups = []
    for found in runs:
        value = found.values[figure.name]
        drawn = None if value is None else value / figure.per_unit
        color = PALETTE[COLORS[found.run.rounding]]
        groups.append(Group(found.run.name, [Bar(drawn, color, figure.told(value))]))
    chart = bar_chart(
        figure.title, figure.unit, groups, width=352, name_width=118, bar_height=12, pitch=20
    )
    return f"<div><h3>{escape(figure.title)}</h3>{chart}</div>"
