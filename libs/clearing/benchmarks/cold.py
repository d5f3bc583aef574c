"""Cold clears: against a sort of the same arrays, by size, against verification; peak memory."""

from collections.abc import Iterator
from functools import partial
from math import log10
from pathlib import Path
from statistics import linear_regression
from typing import Final

import numpy as np

from libs.clearing.benchmarks.books import grown_book
from libs.clearing.benchmarks.figures import BenchError, Figure, at_most
from libs.clearing.benchmarks.instances import draw_arrays, scale_of
from libs.clearing.benchmarks.setting import Setting
from libs.clearing.benchmarks.timing import by_turns, ratio, rounded, timing
from walras_clearing import clear_arrays, verify_arrays
from walras_clearing.arrays import MarketArrays

KIB_PER_GIB: Final = 1 << 20
GROWTH_JOBS: Final = (10**4, 10**5, 10**6, 10**7)


def against_sort(setting: Setting, jobs: int, bound: float) -> Iterator[Figure]:
    """Cold clear and `np.lexsort((limit, team))` of the same arrays."""
    market = draw_arrays(scale_of(setting.jobs(jobs)), setting.seed)
    samples = by_turns(
        {
            "clear": lambda: clear_arrays(market),
            "lexsort": lambda: np.lexsort((market.limit_micro, market.team_of_job)),
        },
        setting.runs,
    )
    yield Figure(
        work=f"cold clear, {shape(market)}",
        value=ratio(samples["clear"], samples["lexsort"]),
        unit="× lexsort",
        bound=at_most(bound),
        timings={name: timing(values) for name, values in samples.items()},
    )


def growth(setting: Setting) -> Iterator[Figure]:
    """Exponent of a straight line through the logarithms of size and time."""
    sizes = sorted({setting.jobs(jobs) for jobs in GROWTH_JOBS})
    timings = {}
    for jobs in sizes:
        market = draw_arrays(scale_of(jobs), setting.seed)
        samples = by_turns({"clear": partial(clear_arrays, market)}, setting.runs)
        timings[f"{jobs:,} jobs"] = timing(samples["clear"])
        del market
    times = [log10(each.median_ms) for each in timings.values()]
    exponent = linear_regression([log10(jobs) for jobs in sizes], times).slope
    yield Figure(
        work=f"growth of the cold clear, {sizes[0]:,} to {sizes[-1]:,} jobs",
        value=rounded(exponent),
        unit="exponent",
        bound=at_most(1.15),
        timings=timings,
        note="fitted line; 100 jobs a team",
    )


def verification(setting: Setting) -> Iterator[Figure]:
    """`verify_arrays` of a result, and the cold clear that gave it."""
    market = draw_arrays(scale_of(setting.jobs(10**6)), setting.seed)
    result = clear_arrays(market)
    if violations := verify_arrays(market, result):
        raise BenchError(f"the result is refused: {violations[0]}")
    samples = by_turns(
        {
            "verify": lambda: verify_arrays(market, result),
            "clear": lambda: clear_arrays(market),
        },
        setting.runs,
    )
    yield Figure(
        work=f"verify, {shape(market)}",
        value=ratio(samples["verify"], samples["clear"]),
        unit="× cold clear",
        bound=at_most(0.5),
        timings={name: timing(values) for name, values in samples.items()},
    )


def memory_of_arrays(setting: Setting) -> Iterator[Figure]:
    """Peak memory of a process that holds the columns and clears them once."""
    market = draw_arrays(scale_of(setting.jobs(10**7)), setting.seed)
    _forget_peak()
    clear_arrays(market)
    yield _peak(f"peak memory, cold clear, {shape(market)}")


def memory_of_book(setting: Setting) -> Iterator[Figure]:
    """Peak memory of a process that fills a book with integer job keys and clears it twice."""
    market = draw_arrays(scale_of(setting.jobs(10**7)), setting.seed)
    _forget_peak()
    book = grown_book(market)
    book.clear()
    book.set_bids(market.bid_micro_per_hour + 1)
    book.clear()
    yield _peak(f"peak memory, filled book, {shape(market)}")


def shape(market: MarketArrays) -> str:
    """Name the size of a market."""
    teams, pools = len(market.bid_micro_per_hour), len(market.own_supply_macc)
    return f"{len(market.size_macc):,} jobs, {teams:,} teams, {pools} pools"


def _forget_peak() -> None:
    # The drawing of the market must not be in the figure. Linux: proc(5), clear_refs.
    Path("/proc/self/clear_refs").write_text("5", "ascii")


def _peak(work: str) -> Figure:
    status = Path("/proc/self/status").read_text("utf-8")
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return Figure(
        work=work,
        value=rounded(kib / KIB_PER_GIB),
        unit="GiB",
        bound=at_most(2.0),
        note="a process of its own, its input columns included",
    )
