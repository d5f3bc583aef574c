"""How much the searches read, counted and not timed: no market makes them degenerate.

A *reading* is a sweep over the teams of one pool, a *window* a pass over its jobs. A bracket of
prices up to 10¹⁸ is halved by every second look, first in powers of 2 and then in ticks, once the
reach of a look has grown for 20 looks: `LOOKS` bounds what one search takes. In pools that own
something each look at a reference price may search the price of the pool in turn. Brackets carry
over from one to the next; how well is measured, not proven: twice the worst that was seen.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from walras_clearing import Book, MarketArrays, verify_arrays
from walras_clearing.arrays import NO_LIMIT, Column, Numbers
from walras_clearing.testing_columns import Limits, draw_columns

LOOKS = 20 + 2 * (60 + 6)
NESTED_LOOKS = 16 * LOOKS
WINDOWS = 6
"""Two narrow windows of a pool, three that are wider each time, and one that holds all rows."""
JOBS = 12_000


def effort(book: Book) -> tuple[float, float]:
    """Clear; return the readings and the windows it took, per pool."""
    before = book._kernel.effort
    market, result = book.market(), book.clear()
    assert verify_arrays(market, result) == ()
    readings, windows = book._kernel.effort
    pools = len(result.price_micro)
    return (readings - before[0]) / pools, (windows - before[1]) / pools


def a_market(
    shared: int,
    own: Sequence[int],
    bids: Sequence[int],
    limits: Column,
    teams: Numbers | None = None,
) -> MarketArrays:
    """Jobs of one accelerator; teams take the pools in turns, and the jobs where not said."""
    pools, count = len(own), len(bids)
    jobs = np.arange(len(limits))
    return MarketArrays(
        shared_supply_macc=shared,
        own_supply_macc=np.array(own, np.int64),
        pool_weight=np.zeros(pools, np.int64),
        pool_of_team=(np.arange(count) % pools).astype(np.int32),
        bid_micro_per_hour=np.array(bids, np.int64),
        team_of_job=(jobs % count).astype(np.int32) if teams is None else teams,
        size_macc=np.full(len(limits), 1000, np.int64),
        limit_micro=limits,
    )


def geometric() -> Column:
    """Limits that are all different, and as many in each of twelve decades."""
    limits = np.array([10 ** (12 * i // JOBS) for i in range(JOBS)], np.int64)
    return limits + np.arange(JOBS) % 1000 * limits // 1000


def shuffled_limits(limits: Column) -> Column:
    return np.random.default_rng(3).permutation(limits)


EQUAL = np.full(JOBS, 777, np.int64)
NONE = np.full(JOBS, NO_LIMIT, np.int64)
GIANT = np.where(np.arange(JOBS) % 50 == 0, np.arange(JOBS) % 40, 0).astype(np.int32)
"""49 of 50 jobs belong to team 0."""

ADVERSARIES = {
    "all limits equal, one pool": a_market(10**6, [0], [10**12], EQUAL),
    "all limits equal, at a jump": a_market(10**6, [10**6], [10**15], EQUAL),
    "all limits equal, four pools": a_market(10**6, [10**6, 0, 5, 0], [10**9] * 8, EQUAL),
    "two limits twelve decades apart": a_market(
        10**6, [10**6], [10**15], np.where(np.arange(JOBS) % 2, 1, 10**12)
    ),
    "a jump at the dearest limit": a_market(10**6, [10**6], [10**15], np.full(JOBS, 10**12)),
    "one giant team": a_market(
        10**6, [10**5, 0], [10**9] * 40, shuffled_limits(geometric()), GIANT
    ),
    "one giant team without money": a_market(
        10**6, [10**5, 0], [1, *[10**9] * 39], shuffled_limits(geometric()), GIANT
    ),
    "prices of one tick": a_market(10**6, [10**3, 0], [10**3] * 4, 1 + np.arange(JOBS) % 3),
    "prices near the highest": a_market(1, [0, 0], [10**15] * 2, NONE),
    "blended prices near the highest": a_market(1, [1, 1], [10**15] * 2, NONE),
    "no shared supply": a_market(0, [10**6, 1, 0], [10**12] * 6, shuffled_limits(geometric())),
}


@pytest.mark.parametrize("market", ADVERSARIES.values(), ids=ADVERSARIES.keys())
def test_adversarial_markets_take_a_bounded_number_of_readings(market: MarketArrays) -> None:
    book = Book.of(market)
    readings, windows = effort(book)
    assert readings <= LOOKS
    assert windows <= WINDOWS
    # A jump of the supply by decades, there and back.
    for shared in (1, 5 * 10**6, market.shared_supply_macc):
        book.set_supply(shared, market.own_supply_macc)
        readings, windows = effort(book)
        assert readings <= 4 * LOOKS
        assert windows <= WINDOWS


@pytest.mark.parametrize("own", [(0,), (0, 0, 0)])
@pytest.mark.parametrize("teams", [1, 2, 600])
def test_one_search_reads_no_more_than_its_bracket_has_bits(
    own: tuple[int, ...], teams: int
) -> None:
    """Limits over twelve decades, at supplies and budgets that put the price anywhere."""
    market = a_market(1, own, [1] * teams, shuffled_limits(geometric()))
    for budget in (1, 10**3, 10**9, 10**12 // teams, 10**15 // teams):
        for shared in (1, 10**3, 10**6, JOBS * 1000 - 1):
            bids = np.full(teams, budget, np.int64)
            book = Book.of(replace(market, shared_supply_macc=shared, bid_micro_per_hour=bids))
            readings, windows = effort(book)
            # Each look is a reading; settling reads each pool at P, at P − 1 and for its margin.
            assert readings <= LOOKS + 3, (budget, shared)
            assert windows <= WINDOWS


@pytest.mark.parametrize("own", [(10**6,), (1,) * 8, (10**6, 0, 5 * 10**6, 10)])
@pytest.mark.parametrize("teams", [1, 2, 600])
def test_searches_inside_a_search_share_what_they_find(own: tuple[int, ...], teams: int) -> None:
    market = a_market(1, own, [1] * teams, shuffled_limits(geometric()))
    for budget in (1, 10**3, 10**9, 10**12 // teams, 10**15 // teams):
        for shared in (1, 10**3, 10**6, JOBS * 1000 - 1):
            bids = np.full(teams, budget, np.int64)
            book = Book.of(replace(market, shared_supply_macc=shared, bid_micro_per_hour=bids))
            readings, windows = effort(book)
            assert readings <= NESTED_LOOKS, (budget, shared)
            assert windows <= WINDOWS


@pytest.mark.parametrize("limits", ["spread", "few", "equal", "none"])
@pytest.mark.parametrize("pools", [1, 5, 50])
def test_an_unchanged_book_makes_no_window(limits: Limits, pools: int) -> None:
    """The first clearing leaves windows at the sample's prices, the second at the right ones."""
    book = Book.of(draw_columns(1, pools=pools, teams=200, jobs=40_000, limits=limits))
    effort(book)
    effort(book)
    for _ in range(3):
        readings, windows = effort(book)
        assert windows == 0
        assert readings <= 16


@pytest.mark.parametrize("limits", ["spread", "few", "none"])
def test_ordinary_edits_stay_in_their_windows(limits: Limits) -> None:
    """Prices that move by some per cent do not leave a sixteenth of the jobs."""
    market = draw_columns(2, teams=200, jobs=40_000, limits=limits)
    book = Book.of(market)
    effort(book)
    rng = np.random.default_rng(2)
    total = 0.0
    for _ in range(20):
        book.set_bids(market.bid_micro_per_hour * rng.integers(97, 104, 200) // 100)
        book.upsert_job(int(rng.integers(40_000)), 3, 9000, int(rng.integers(1, 10**9)))
        readings, windows = effort(book)
        total += windows
        assert readings <= LOOKS
    assert total <= 2


def test_drawn_markets_take_few_readings() -> None:
    readings = [
        effort(Book.of(draw_columns(seed, pools=1 + seed % 7, bid_bits=1 + seed % 40)))[0]
        for seed in range(40)
    ]
    assert sum(readings) / len(readings) <= 16
    assert max(readings) <= LOOKS


@pytest.mark.parametrize("per_team", [4, 10, 100])
@pytest.mark.parametrize("pools", [1, 5])
def test_a_cold_market_is_found_by_its_sample(pools: int, per_team: int) -> None:
    """One window a pool, now and then a second one where the sample was off; no stairs of looks."""
    jobs, looks, passes = 40_000, 0.0, 0.0
    for seed in range(6):
        market = draw_columns(
            seed, pools=pools, teams=jobs // per_team, jobs=jobs, limits="spread", bid_bits=24
        )
        readings, windows = effort(Book.of(market))
        looks += readings
        passes += windows
    assert passes / 6 <= 2
    assert looks / 6 <= 30


def test_prices_so_fine_that_quantities_stand_still_are_not_walked_tick_by_tick() -> None:
    """Where one macc more is a million ticks away, each look still shortens the bracket."""
    for seed in range(36, 40):
        readings, _ = effort(Book.of(draw_columns(seed, pools=1 + seed % 7, bid_bits=1 + seed)))
        assert readings <= 80


def test_reading_a_pool_is_counted() -> None:
    """Canary of this file: a clearing that moves its price is not free."""
    book = Book.of(draw_columns(5))
    first = effort(book)
    book.set_supply(5, np.zeros(5, np.int64))
    second = effort(book)
    assert first[0] > 0
    assert first[1] > 0
    assert second[0] > 0
