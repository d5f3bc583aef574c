"""Medians, spreads and percentiles of small samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

ENOUGH_FOR_P99 = 100


@dataclass(frozen=True, slots=True)
class Spread:
    """Median of some runs, the least and the most, and (most - least) / median in percent."""

    median: float
    least: float
    most: float
    spread_percent: float


def spread(values: Sequence[float]) -> Spread:
    """Summarise the same figure of several runs."""
    middle = median(values)
    width = 100 * (max(values) - min(values)) / middle if middle else 0.0
    return Spread(
        *(round(v, 1) for v in (middle, min(values), max(values), width)),
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the least value that is at or above ``percent`` of them (nearest rank)."""
    ordered = sorted(values)
    return ordered[-(-len(ordered) * percent // 100) - 1]


def p99(values: Sequence[float]) -> float | None:
    """Return the 99th percentile; None where there are too few values to tell it from the most."""
    return percentile(values, 99) if len(values) >= ENOUGH_FOR_P99 else None
