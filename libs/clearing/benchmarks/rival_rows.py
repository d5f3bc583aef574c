"""The compiled rival: nested bisection, cold and after the change of a team.

The rival gives prices alone, the library shares, leftovers and a certificate too; the difference is
in the rival's favour. Two rivals run: the algorithm of the paper, and the same with the brackets of
the pool prices carried from one reference price to the next, which the paper does not say. The
bounds are about the first; the second is shown beside it.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from libs.clearing.benchmarks.books import Changes, apply_one_bid, expect_cold_result
from libs.clearing.benchmarks.cold import shape
from libs.clearing.benchmarks.figures import BenchError, Bound, Figure, at_least, unbounded
from libs.clearing.benchmarks.instances import draw_arrays, scale_of
from libs.clearing.benchmarks.nested_bisection import NestedBisection, compiler
from libs.clearing.benchmarks.setting import Setting
from libs.clearing.benchmarks.timing import by_turns, ratio, timing
from walras_clearing import Book, clear_arrays
from walras_clearing.arrays import ClearedArrays, Column, MarketArrays

COLD_BOUND = 3.0
WARM_BOUND = 30.0
RIVALS = {"nested bisection": False, "nested bisection, brackets carried": True}


def cold_and_warm(setting: Setting) -> Iterator[Figure]:
    """Both comparisons with both rivals, at the same market."""
    market = draw_arrays(scale_of(setting.jobs(10**6)), setting.seed)
    if compiler() is None:
        for kind, bound in (("cold", COLD_BOUND), ("warm", WARM_BOUND)):
            work = f"{kind} against {next(iter(RIVALS))}"
            yield Figure(work, None, "× faster", at_least(bound), note="no C compiler here")
        return
    yield from _cold(market, setting)
    yield from _warm(market, setting)


def _cold(market: MarketArrays, setting: Setting) -> Iterator[Figure]:
    expect_same_prices(clear_arrays(market), *_grouped_and_solved(market, narrowed=False))
    works: dict[str, Callable[[], object]] = {"clear": lambda: clear_arrays(market)}
    for name, narrowed in RIVALS.items():
        works[name] = partial(_grouped_and_solved, market, narrowed=narrowed)
    samples = by_turns(works, setting.runs)
    for name in RIVALS:
        yield Figure(
            work=f"cold against {name}, {shape(market)}",
            value=ratio(samples[name], samples["clear"]),
            unit="× faster",
            bound=_bound(name, COLD_BOUND),
            timings={part: timing(samples[part]) for part in ("clear", name)},
            note="the rival groups, sorts, and solves for prices alone",
        )


def _warm(market: MarketArrays, setting: Setting) -> Iterator[Figure]:
    book, rival, changes = Book.of(market), NestedBisection(market), Changes(market, 1)
    result, prices = book.clear(), rival.solve()
    change = changes.of_one_team()

    def draw() -> None:
        nonlocal change
        change = changes.of_one_team()

    def ours() -> None:
        nonlocal result
        result = apply_one_bid(book, change)

    def theirs(*, changed: bool, narrowed: bool) -> None:
        nonlocal prices
        if changed:
            team = int(change.teams[0])
            rival.change_team(team, int(change.bids[team]), change.sizes, change.limits)
        prices = rival.solve(narrowed=narrowed)

    names = list(RIVALS)
    samples = by_turns(
        {
            "book": ours,
            names[0]: lambda: theirs(changed=True, narrowed=False),
            names[1]: lambda: theirs(changed=True, narrowed=True),
        },
        setting.runs,
        before=draw,
    )
    expect_cold_result(book, result)
    expect_same_prices(result, *prices)
    rival.close()
    for name in RIVALS:
        yield Figure(
            work=f"warm against {name}, one team changed, {shape(market)}",
            value=ratio(samples[name], samples["book"]),
            unit="× faster",
            bound=_bound(name, WARM_BOUND),
            timings={part: timing(samples[part]) for part in ("book", name)},
            note="the rival sorts that team again and solves for prices alone",
        )


def _bound(rival: str, value: float) -> Bound:
    return unbounded() if RIVALS[rival] else at_least(value)


def _grouped_and_solved(market: MarketArrays, *, narrowed: bool) -> tuple[int | None, Column]:
    rival = NestedBisection(market)
    try:
        return rival.solve(narrowed=narrowed)
    finally:
        rival.close()


def expect_same_prices(result: ClearedArrays, price: int | None, prices: Column) -> None:
    """Refuse a comparison unless both say the same.

    Raises
    ------
    BenchError
        The rival's prices are not those of the library.
    """
    if result.reference_price_micro != price or not np.array_equal(result.price_micro, prices):
        raise BenchError(f"the rival says {price}, the library {result.reference_price_micro}")
