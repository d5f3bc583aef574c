"""Times of what is compared, taken by turns in one process, so that both see the same machine."""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Final

RUNS: Final = 9
DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Timing:
    """Median, least and most of the runs of one thing, in milliseconds."""

    median_ms: float
    least_ms: float
    most_ms: float
    runs: int


def timing(samples_ms: Sequence[float]) -> Timing:
    """Summarise the runs of one thing."""
    return Timing(
        median_ms=rounded(median(samples_ms)),
        least_ms=rounded(min(samples_ms)),
        most_ms=rounded(max(samples_ms)),
        runs=len(samples_ms),
    )


def rounded(figure: float) -> float:
    """Keep the digits that a timing can mean."""
    return float(f"{figure:.{DIGITS}g}")


def timed_ms(work: Callable[[], object]) -> float:
    """Run once without the collector; return milliseconds."""
    gc.collect()
    gc.disable()
    try:
        began = perf_counter()
        work()
        return (perf_counter() - began) * 1e3
    finally:
        gc.enable()


def by_turns(
    works: Mapping[str, Callable[[], object]],
    runs: int,
    *,
    before: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """Run each of several works in turn, after one turn that does not count.

    `before` is called ahead of every turn, unmeasured: the place to draw what changes.
    """
    samples: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(runs + 1):
        before()
        for name, work in works.items():
            spent_ms = timed_ms(work)
            if turn > 0:
                samples[name].append(spent_ms)
    return samples


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the ratio of the medians."""
    return rounded(median(ours) / median(theirs))
