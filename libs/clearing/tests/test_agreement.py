"""The kernel computes the specification bit for bit, and the specification its definition."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from walras_clearing import Job, Market, Pool, PriceHint, Team, clear, clear_reference
from walras_clearing.clear import GUESS_MIN_ROWS
from walras_clearing.reference import Book, split
from walras_clearing.testing import COARSE, TINY_SUPPLIES, draw_market, tiny_markets
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
            if number % 97 == 0:
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


def a_large_market(seed: int, teams: int, jobs: int) -> Market:
    rng = random.Random(seed)
    pools = tuple(Pool(f"p{k}", rng.choice((0, 20_000, 400_000))) for k in range(4))
    return Market(
        rng.choice((0, 50_000, 900_000)),
        pools,
        tuple(
            Team(
                f"t{i}",
                rng.choice(pools).pool,
                rng.choice((0, 40_000, 4 * 10**6, 4 * 10**8)),
                tuple(
                    Job(f"j{j}", 1000 << rng.randrange(6), rng.choice((None, 50_000, 10**6 + j)))
                    for j in range(jobs)
                ),
            )
            for i in range(teams)
        ),
        idle_own_supply=rng.choice(("keep", "lend")),
    )


@pytest.mark.parametrize(("teams", "jobs"), [(300, 1), (30, 12), (2, 200)])
@pytest.mark.parametrize("seed", range(4))
def test_large_markets_that_start_from_an_estimate_agree_too(
    seed: int, teams: int, jobs: int
) -> None:
    market = a_large_market(seed, teams, jobs)
    assert sum(len(team.jobs) for team in market.teams) > GUESS_MIN_ROWS
    assert_agreement(market, seed)


@pytest.mark.parametrize("seed", range(200))
def test_hints_from_anywhere_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    market = draw_market(rng.randint)
    pools = {pool.pool: rng.choice((0, 1, 7, 10**6, 10**18)) for pool in market.pools}
    hint = PriceHint(rng.choice((0, 3, 10**5, 10**18, 10**30)), pools)
    assert clear(market, hint=hint) == clear_reference(market), f"seed {seed}"


@pytest.mark.parametrize("seed", range(300))
def test_split_meets_its_definition(seed: int) -> None:
    rng = random.Random(seed)
    weights = [rng.choice((0, 1, 2, 6, rng.randint(0, 40))) for _ in range(rng.randint(0, 6))]
    total = sum(weights)
    before = [0] * len(weights)
    for amount in range(total + 2):
        shares = split(amount, weights)
        assert sum(shares) == min(amount, total)
        assert all(0 <= share <= weight for share, weight in zip(shares, weights, strict=True))
        assert all(now >= then for now, then in zip(shares, before, strict=True)), "monotone"
        for i, weight in enumerate(weights):
            for j, other in enumerate(weights):
                if weight == other and i < j:
                    assert 0 <= shares[i] - shares[j] <= 1, "the first id gets the odd macc"
        before = shares


def test_split_is_monotone_where_largest_remainders_are_not() -> None:
    assert split(3, [6, 6, 2]) == [2, 1, 0]
    assert split(4, [6, 6, 2]) == [2, 2, 0]
    assert split(20, [6, 6, 2]) == [6, 6, 2]
    assert split(5, [0, 0]) == [0, 0]


def test_a_kernel_that_is_wrong_by_one_macc_would_be_caught() -> None:
    """Canary of this file: the comparison fails on the smallest possible fault."""
    _, market = next(seeded_markets(3, 1))
    result = clear(market)
    name, team = next(iter(result.teams.items()))
    wrong = replace(team, allocated_macc=team.allocated_macc + 1)
    assert replace(result, teams={**result.teams, name: wrong}) != clear_reference(market)
