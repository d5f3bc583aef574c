"""Warm clears of a `Book`: what a cycle costs when little, or only money, has changed."""

from collections.abc import Iterator
from time import perf_counter
from typing import Final

import numpy as np

from libs.clearing.benchmarks.books import (
    Changes,
    apply_all_bids,
    apply_one_bid,
    expect_cold_result,
)
from libs.clearing.benchmarks.cold import shape
from libs.clearing.benchmarks.figures import Figure, at_most
from libs.clearing.benchmarks.instances import Scale, draw_arrays, scale_of
from libs.clearing.benchmarks.setting import Setting
from libs.clearing.benchmarks.timing import by_turns, ratio, rounded, timing
from tests.performance.samples import percentile
from walras_clearing import Book
from walras_clearing.arrays import MarketArrays

STEPS_PER_RUN: Final = 60


def all_bids_changed(setting: Setting) -> Iterator[Figure]:
    """One team in a hundred gets other jobs, all teams other bids; against the sort."""
    market = draw_arrays(scale_of(setting.jobs(10**6)), setting.seed)
    book, changes = Book.of(market), Changes(market, setting.seed)
    count = max(1, len(market.bid_micro_per_hour) // 100)
    result = book.clear()
    change = changes.of_teams(count)

    def draw() -> None:
        nonlocal change
        change = changes.of_teams(count)

    def cycle() -> None:
        nonlocal result
        result = apply_all_bids(book, change)

    samples = by_turns(
        {
            "cycle": cycle,
            "lexsort": lambda: np.lexsort((market.limit_micro, market.team_of_job)),
        },
        setting.runs,
        before=draw,
    )
    expect_cold_result(book, result)
    yield Figure(
        work=f"warm, all jobs of {count:,} teams and all bids changed, {shape(market)}",
        value=ratio(samples["cycle"], samples["lexsort"]),
        unit="× lexsort",
        bound=at_most(0.03),
        timings={name: timing(values) for name, values in samples.items()},
        note=f"upsert_jobs of {len(change.jobs):,} jobs, set_bids and clear are timed",
    )


def one_team_changed(setting: Setting) -> Iterator[Figure]:
    """All jobs of one team and its bid change: median and 95th percentile of such cycles."""
    at_teams = {10**4: (0.7, 2.0), 10**5: (None, 10.0)}
    jobs = setting.jobs(10**6)
    for teams, (p50_bound, p95_bound) in at_teams.items():
        market = draw_arrays(Scale(jobs, max(10, teams * jobs // 10**6)), setting.seed)
        halves, tails = _steps(market, setting)
        parts = [(50, halves, p50_bound), (95, tails, p95_bound)]
        for percent, samples, bound in parts:
            if bound is not None:
                yield Figure(
                    work=f"warm, one team changed, p{percent}, {shape(market)}",
                    value=rounded(float(np.median(samples))),
                    unit="ms",
                    bound=at_most(bound),
                    timings={f"p{percent}": timing(samples)},
                    note=f"of {STEPS_PER_RUN} cycles, median of {setting.runs} such runs",
                )


def _steps(market: MarketArrays, setting: Setting) -> tuple[list[float], list[float]]:
    """Return the median and the 95th percentile of each run."""
    book, changes = Book.of(market), Changes(market, setting.seed)
    result = book.clear()
    halves, tails = [], []
    for run in range(setting.runs + 1):
        drawn = [changes.of_one_team() for _ in range(STEPS_PER_RUN)]
        spent = []
        for change in drawn:
            began = perf_counter()
            result = apply_one_bid(book, change)
            spent.append((perf_counter() - began) * 1e3)
        if run > 0:
            halves.append(percentile(spent, 50))
            tails.append(percentile(spent, 95))
    expect_cold_result(book, result)
    return halves, tails
