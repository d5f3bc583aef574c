"""The kernel computes the specification bit for bit, and the specification its definition."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from walras_clearing import (
    Market,
    PriceHint,
    clear,
    clear_arrays,
    clear_reference,
    verify_arrays,
)
from walras_clearing.pack import pack, unpack
from walras_clearing.reference import Book
from walras_clearing.testing import (
    COARSE,
    TINY_SUPPLIES,
    draw_market,
    draw_scaled,
    tiny_markets,
)
from walras_clearing.verify import verify

CHUNK = 500


def seeded_markets(first_seed: int, count: int) -> Iterator[tuple[int, Market]]:
    for seed in range(first_seed, first_seed + count):
        yield seed, draw_market(random.Random(seed).randint)


def assert_agreement(market: Market, seed: object) -> None:
    expected, actual = clear_reference(market), clear(market)
    assert actual == expected, f"seed {seed}: {market}"
    assert list(actual.teams) == list(expected.teams), f"seed {seed}: {market}"
    violations = verify(market, actual)
    assert violations == (), f"seed {seed}: {market}"
    packed = pack(market)
    columns = clear_arrays(packed.arrays)
    assert unpack(packed, columns) == expected, f"seed {seed}: {market}"
    violations = verify_arrays(packed.arrays, columns)
    assert violations == (), f"seed {seed}: {market}"


@pytest.mark.parametrize("first_seed", range(0, 5_000, CHUNK))
def test_kernel_and_verify_agree_with_the_specification_on_5000_markets(first_seed: int) -> None:
    for seed, market in seeded_markets(first_seed, CHUNK):
        assert_agreement(market, seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first_seed", range(1_000_000, 1_100_000, 5_000))
def test_kernel_and_verify_agree_with_the_specification_on_100000_markets(first_seed: int) -> None:
    for seed, market in seeded_markets(first_seed, 5_000):
        assert_agreement(market, seed)


@pytest.mark.parametrize("first_seed", range(0, 1_000, CHUNK))
def test_they_agree_whatever_the_scales_of_quantities_money_and_limits(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + CHUNK):
        assert_agreement(draw_scaled(random.Random(seed).randint), seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first_seed", range(2_000_000, 2_030_000, 5_000))
def test_they_agree_at_all_scales_on_30000_markets(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 5_000):
        assert_agreement(draw_scaled(random.Random(seed).randint), seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("own", "shared", "reserve"), TINY_SUPPLIES)
def test_kernel_and_verify_agree_with_the_specification_on_every_tiny_market(
    own: tuple[int, int], shared: int, reserve: int
) -> None:
    for number, market in enumerate(tiny_markets(own, shared, reserve)):
        assert_agreement(market, number)


def test_some_tiny_markets_agree_in_every_run() -> None:
    for own, shared, reserve in TINY_SUPPLIES[::5]:
        for number, market in enumerate(tiny_markets(own, shared, reserve)):
            if number % 211 == 0:
                assert_agreement(market, number)


def test_the_generator_reaches_every_kind_of_market() -> None:
    seen: set[str] = set()
    for _, market in seeded_markets(0, 400):
        result = clear(market)
        price = result.reference_price_micro
        seen.add("absent" if price is None else "free" if price == 0 else "priced")
        if price is not None and 0 < price == market.reserve_price_micro:
            seen.add("at reserve")
        book = Book(market)
        for pool in book.pools:
            seen.add("s = 0" if pool.own_supply_macc == 0 else "s > 0")
            p = result.pools[pool.pool].price_micro
            if p and book.closed(pool, p) > book.open(pool, p):
                seen.add("tie, s = 0" if pool.own_supply_macc == 0 else "tie, s > 0")
            if p is not None and 0 < p == price and pool.own_supply_macc:
                seen.add("p = P, s > 0")
        if market.idle_own_supply == "lend" and sum(book.lent.values()) > 0:
            seen.add("lent")
        if any(team.opportunistic_macc for team in result.teams.values()):
            seen.add("leftovers")
        seen.add(market.margin)
    assert seen == {
        *("absent", "free", "priced", "at reserve", "s = 0", "s > 0", "tie, s = 0", "tie, s > 0"),
        *("p = P, s > 0", "lent", "leftovers", "pro_rata", "strict_order"),
    }


@pytest.mark.parametrize("seed", range(60))
def test_the_specification_finds_the_first_tick_that_a_scan_finds(seed: int) -> None:
    """The bisections of the specification rest on monotonicity; a scan of all ticks does not."""
    market = draw_market(random.Random(seed).randint, COARSE)
    book = Book(market)
    price = book.reference_price()
    if price is None:
        return
    for pool in book.pools:
        own = pool.own_supply_macc
        if own > 0:
            scanned = next(
                p for p in range(price + 1) if book.open(pool, p) * (price - p) <= own * price
            )
            assert book.pool_price(pool, price) == scanned
    for lower in range(market.reserve_price_micro, price):
        bought = [book.purchases(p, lower, book.pool_price(p, lower)) for p in book.pools]
        assert sum(bought) > book.shared


@pytest.mark.parametrize("seed", range(200))
def test_hints_from_anywhere_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    market = draw_market(rng.randint)
    pools = {pool.pool: rng.choice((0, 1, 7, 10**6, 10**18)) for pool in market.pools}
    hint = PriceHint(rng.choice((0, 3, 10**5, 10**18, 10**30)), pools)
    assert clear(market, hint=hint) == clear_reference(market), f"seed {seed}"


def test_a_kernel_that_is_wrong_by_one_macc_would_be_caught() -> None:
    """Canary of this file: the comparison fails on the smallest possible fault."""
    _, market = next(seeded_markets(3, 1))
    result = clear(market)
    name, team = next(iter(result.teams.items()))
    wrong = replace(team, allocated_macc=team.allocated_macc + 1)
    assert replace(result, teams={**result.teams, name: wrong}) != clear_reference(market)
