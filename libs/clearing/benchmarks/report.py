"""What a run gave: as one JSON document, and as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from time import gmtime, strftime
from typing import Any, Final

from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

from libs.clearing.benchmarks.figures import Bound, Figure
from libs.clearing.benchmarks.machine import Machine
from libs.clearing.benchmarks.timing import Timing
from walras_runtime.clock import wall_ms

LAYOUT: Final = 1
"""Changes when a field of the JSON line changes its meaning."""
COLUMNS: Final[tuple[tuple[str, JustifyMethod], ...]] = (
    *(("work", "left"), ("times", "left")),
    *(("figure", "right"), ("bound", "right"), ("", "right")),
)
SHARED_CORES: Final = 0.1
"""Above this the clock also times the other programs of the machine."""


@dataclass(frozen=True, slots=True)
class RowReport:
    """The figures of one row; `others_cores`: cores that other programs kept busy meanwhile."""

    row: str
    figures: tuple[Figure, ...]
    others_cores: float
    error: str = ""

    def document(self) -> dict[str, Any]:
        """Return the content for JSON."""
        return {
            "row": self.row,
            "others_cores": self.others_cores,
            "error": self.error,
            "figures": [{**asdict(f), "outcome": f.outcome} for f in self.figures],
        }


def row_report(document: Mapping[str, Any]) -> RowReport:
    """Return the report that a measuring process printed."""
    figures = tuple(
        Figure(
            work=figure["work"],
            value=figure["value"],
            unit=figure["unit"],
            bound=Bound(**figure["bound"]),
            timings={name: Timing(**each) for name, each in figure["timings"].items()},
            note=figure["note"],
        )
        for figure in document["figures"]
    )
    return RowReport(document["row"], figures, document["others_cores"], document["error"])


@dataclass(frozen=True, slots=True)
class Results:
    """All rows of a run, with what they were measured on."""

    machine: Machine
    commit: str
    changed_files: bool
    quick: bool
    seed: int
    rows: tuple[RowReport, ...]

    def document(self) -> dict[str, Any]:
        """Return the content of the JSON line."""
        return {
            "layout": LAYOUT,
            "bench": "clearing",
            "at": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(wall_ms() / 1000)),
            "machine": asdict(self.machine),
            "commit": self.commit,
            "changed_files": self.changed_files,
            "quick": self.quick,
            "seed": self.seed,
            "rows": [row.document() for row in self.rows],
        }


def show(results: Results, console: Console) -> None:
    """Print the table."""
    console.print(results.machine.describe(), highlight=False, soft_wrap=True)
    changed = " with changed files" if results.changed_files else ""
    console.print(f"commit {results.commit or 'unknown'}{changed}, seed {results.seed}")
    if results.quick:
        console.print("quick: checks that the bench works; the figures mean nothing")
    table = Table(title="Clearing core: medians (least to most) in ms")
    for name, justify in COLUMNS:
        table.add_column(name, justify=justify)
    notes: list[str] = []
    for row in results.rows:
        for figure in row.figures:
            if figure.note:
                notes.append(figure.note)
            mark = f" [{len(notes)}]" if figure.note else ""
            table.add_row(*(escape(cell) for cell in _cells(figure, mark, quick=results.quick)))
        if row.error:
            table.add_row(row.row, escape(row.error), "", "", "not run")
    console.print(table)
    for number, note in enumerate(notes, start=1):
        console.print(f"[{number}] {note}", markup=False, highlight=False, soft_wrap=True)
    busy = max((row.others_cores for row in results.rows), default=0.0)
    if busy > SHARED_CORES:
        console.print(
            f"Other programs kept up to {busy:.1f} cores busy: compare ratios, not milliseconds."
        )


def _cells(figure: Figure, mark: str, *, quick: bool) -> Sequence[str]:
    times = [
        f"{name} {each.median_ms:,g} ({each.least_ms:,g} to {each.most_ms:,g})"
        for name, each in figure.timings.items()
    ]
    outcome = figure.outcome
    return (
        f"{figure.work}{mark}",
        "\n".join(times),
        "–" if figure.value is None else f"{figure.value:,g} {figure.unit}",
        f"{figure.bound}",
        "–" if quick and outcome != "not run" else outcome,
    )
