"""What all benches say of a run beside its figures, and the history that runs are kept in."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import gmtime, strftime
from typing import Any, Final

from rich.console import Console

from tests.performance.machine import ROOT, Machine
from tests.performance.one_process import Rate
from walras_runtime.clock import wall_ms

HISTORY: Final = ROOT / "docs" / "bench" / "history.jsonl"
SHARED_CORES: Final = 0.1
"""Above this the clock also times the other programs of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """On what a run was measured; the results of a bench add its figures."""

    machine: Machine
    commit: str
    changed_files: bool
    quick: bool
    seed: int

    def values(self) -> dict[str, Any]:
        """Return all fields, and when it was measured: now."""
        return {"at": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(wall_ms() / 1000)), **asdict(self)}

    def show_head(self, console: Console) -> None:
        """Print what goes before the tables."""
        console.print(self.machine.describe(), highlight=False, soft_wrap=True)
        changed = " with changed files" if self.changed_files else ""
        console.print(f"commit {self.commit or 'unknown'}{changed}, seed {self.seed}")
        if self.quick:
            console.print("quick: checks that the bench works; the figures mean nothing")


def show_others(others_cores: float, console: Console) -> None:
    """Print what the rest of the machine did, where it was enough to matter."""
    if others_cores > SHARED_CORES:
        console.print(
            f"Other programs kept up to {others_cores:.1f} cores busy: what the clock says "
            "is theirs too; CPU figures hold better."
        )


RATE_COLUMNS: Final = ("", "events/s", "spread", "events/CPU s", "spread", "others, cores")


def rate_cells(rate: Rate) -> list[str]:
    """Return a row of a table of rates, without its name."""
    cells = []
    for figure in (rate.events_per_s, rate.events_per_cpu_s):
        cells += [f"{figure.median:,.0f}", f"{figure.spread_percent:.0f} %"]
    return [*cells, f"{rate.others_cores:.2f}"]


def append(document: Mapping[str, Any], history: Path) -> None:
    """Add a line to the history."""
    history.parent.mkdir(parents=True, exist_ok=True)
    with history.open("a", encoding="utf-8") as file:
        file.write(json.dumps(document, separators=(",", ":")) + "\n")
