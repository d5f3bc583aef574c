"""The rows of the table, by name. A row runs in a process of its own and gives some figures."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Final

from libs.clearing.benchmarks import cold, rival_rows, warm
from libs.clearing.benchmarks.figures import Figure
from libs.clearing.benchmarks.instructions import counted_rows
from libs.clearing.benchmarks.setting import Setting

Row = Callable[[Setting], Iterator[Figure]]


def _conic(
    setting: Setting, *, jobs: int, agreement: float, tolerance: float, bound: float
) -> Iterator[Figure]:
    """Load the solver for its own rows alone: it takes time, and memory that others measure."""
    module = import_module("libs.clearing.benchmarks.conic_row")
    figures: Iterator[Figure] = module.against_conic(
        setting, jobs, agreement=agreement, tolerance=tolerance, bound=bound
    )
    return figures


def _counted(setting: Setting) -> Iterator[Figure]:
    """Count at one size always: the counts are compared with a record."""
    del setting
    return counted_rows()


ROWS: Final = MappingProxyType[str, Row](
    {
        "cold-1m": partial(cold.against_sort, jobs=10**6, bound=0.35),
        "cold-10m": partial(cold.against_sort, jobs=10**7, bound=1.0),
        "memory-cold": cold.memory_of_arrays,
        "memory-book": cold.memory_of_book,
        "warm-bids": warm.all_bids_changed,
        "warm-team": warm.one_team_changed,
        "growth": cold.growth,
        "conic-10k": partial(_conic, jobs=10**4, agreement=1e-6, tolerance=1e-8, bound=500.0),
        "conic-100k": partial(_conic, jobs=10**5, agreement=1e-4, tolerance=1e-6, bound=1_000.0),
        "nested": rival_rows.cold_and_warm,
        "verify": cold.verification,
        "instructions": _counted,
    }
)
