"""Markets of thousands of jobs: prices from a sample, and windows that hold a part of the jobs.

The specification reads every job at every price it tries; where limits are few it is given the same
market with equal jobs of a team put together, and where they are many, both verifications, which
accept one result only, take its place.
"""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from walras_clearing import (
    Book,
    ClearedArrays,
    Job,
    Market,
    MarketArrays,
    PriceHint,
    clear,
    clear_arrays,
    clear_reference,
    verify,
    verify_arrays,
)
from walras_clearing.pack import pack, unpack
from walras_clearing.testing_columns import Limits, differences, draw_columns, named

KINDS: tuple[Limits, ...] = ("spread", "few", "equal", "none")


def condensed(market: Market) -> Market:
    """The same market with the jobs of a team that have one limit put together."""
    teams = []
    for team in market.teams:
        sizes: dict[int | None, int] = defaultdict(int)
        for job in team.jobs:
            sizes[job.limit_micro] += job.size_macc
        jobs = tuple(
            Job(f"j{number}", size, limit) for number, (limit, size) in enumerate(sizes.items())
        )
        teams.append(replace(team, jobs=jobs))
    return replace(market, teams=tuple(teams))


def windows_of(book: Book) -> int:
    windows: int = book._kernel.effort[1]
    return windows


def assert_cleared(market: MarketArrays, result: ClearedArrays, what: str) -> None:
    assert verify_arrays(market, result) == (), what
    assert differences(result, clear_arrays(market)) == [], what


@pytest.mark.parametrize("limits", ["few", "equal", "none"])
@pytest.mark.parametrize("seed", range(4))
def test_markets_that_start_from_a_sample_agree_with_the_specification(
    seed: int, limits: Limits
) -> None:
    market = named(draw_columns(seed, limits=limits, jobs=10_500, teams=40))
    result = clear(market)
    assert result == clear_reference(condensed(market)), f"seed {seed}"
    assert verify(market, result) == (), f"seed {seed}"


@pytest.mark.parametrize("limits", KINDS)
@pytest.mark.parametrize("seed", range(100, 106))
def test_markets_that_start_from_a_sample_pass_both_verifications(
    seed: int, limits: Limits
) -> None:
    arrays = draw_columns(seed, limits=limits, bid_bits=10 + 3 * (seed % 10), jobs=11_000)
    market = named(arrays)
    result = clear(market)
    assert verify(market, result) == (), f"seed {seed}"
    packed = pack(market)
    assert unpack(packed, clear_arrays(packed.arrays)) == result, f"seed {seed}"
    assert_cleared(arrays, Book.of(arrays).clear(), f"seed {seed}")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("limits", KINDS)
def test_thousands_of_large_markets_are_certified(limits: Limits) -> None:
    for seed in range(2_000, 6_000):
        arrays = draw_columns(
            seed,
            limits=limits,
            pools=1 + seed % 9,
            teams=1 + seed % 211,
            jobs=4_000 + 16 * (seed % 1_000),
            bid_bits=1 + seed % 40,
        )
        assert verify_arrays(arrays, clear_arrays(arrays)) == (), f"seed {seed}"


@pytest.mark.parametrize("seed", range(4))
def test_prices_that_leave_their_window_make_another_and_then_one_that_holds_all(
    seed: int,
) -> None:
    """The supply jumps by decades between clearings, so that no window is where it is needed."""
    arrays = draw_columns(seed, pools=2, teams=12, jobs=16_000, bid_bits=36)
    book = Book.of(arrays)
    book.clear()
    before, most = windows_of(book), 0
    for shared in (1, 10**6, 3, 10**8, 1000, 0, 10**4, 10**7, 1):
        arrays = replace(arrays, shared_supply_macc=shared)
        book.set_supply(shared, arrays.own_supply_macc)
        assert_cleared(arrays, book.clear(), f"seed {seed}, shared {shared}")
        now = windows_of(book)
        most = max(most, now - before)
        before = now
    assert most > 2, "a pool needed a second window in one clearing"


@pytest.mark.parametrize("limits", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_hints_that_are_far_off_change_nothing_in_large_markets(seed: int, limits: Limits) -> None:
    market = named(draw_columns(seed, limits=limits, jobs=10_500))
    cold = clear(market)
    for price in (0, 1, 10**5, 10**18):
        pools = {pool.pool: price // (2 + number) for number, pool in enumerate(market.pools)}
        assert clear(market, hint=PriceHint(price, pools)) == cold, f"seed {seed}, hint {price}"


def test_a_team_whose_jobs_outgrow_its_place_in_the_window_is_read_again() -> None:
    """A window has room for as many steps again; the jobs of one team become far more."""
    arrays = draw_columns(7, pools=1, teams=8, jobs=9_000)
    book = Book.of(arrays)
    price = int(book.clear().price_micro[0])
    for more in range(1, 4):
        keys = np.arange(20_000 * more, 20_000 * more + 2_000, dtype=np.int32)
        # Different limits around the price, all inside the window.
        limits = max(1, price - 1_000) + np.arange(2_000, dtype=np.int64)
        book.upsert_jobs(keys, np.full(2_000, 3, np.int32), np.full(2_000, 40 * more), limits)
        assert_cleared(book.market(), book.clear(), f"edit {more}")


def test_the_largest_jobs_of_long_queues_do_not_overflow_the_sample() -> None:
    """A sampled job stands for a thousand others; this one is all that a market may hold."""
    count = 60_000
    size = np.ones(count, np.int64)
    size[0] = 10**15 - count
    arrays = MarketArrays(
        shared_supply_macc=10**14,
        own_supply_macc=np.array([7 * 10**13], np.int64),
        pool_weight=np.zeros(1, np.int64),
        pool_of_team=np.zeros(1, np.int32),
        bid_micro_per_hour=np.array([10**15], np.int64),
        team_of_job=np.zeros(count, np.int32),
        size_macc=size,
        limit_micro=np.full(count, 10**12, np.int64),
    )
    assert_cleared(arrays, clear_arrays(arrays), "one team")


def test_a_market_that_is_cleared_one_macc_off_would_be_caught() -> None:
    """Canary of this file."""
    arrays = draw_columns(1)
    result = clear_arrays(arrays)
    result.allocated_macc[0] += 1
    with pytest.raises(AssertionError):
        assert_cleared(arrays, result, "altered")
