"""`verify` accepts every result and refuses every altered one (theory: property 18)."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from walras_clearing import Job, Market, Pool, Team, clear
from walras_clearing.model import Certificate, ClearingResult, PoolResult, TeamResult
from walras_clearing.reference import Book
from walras_clearing.testing import draw_market
from walras_clearing.verify import verify


def _one(figure: str, value: Any) -> dict[str, Any]:
    return {figure: value}


def perturbations(result: ClearingResult) -> Iterator[tuple[str, ClearingResult]]:
    """Every result that differs in one field."""

    def others(value: int | None) -> tuple[int | None, ...]:
        if value is None:
            return (0, 1)
        return (value + 1, value - 1, value * 2 + 3, -1 if value else 7, None)

    for price in others(result.reference_price_micro):
        yield "reference price", replace(result, reference_price_micro=price)
    for name, pool in result.pools.items():
        for price in others(pool.price_micro):
            changed = replace(pool, price_micro=price)
            yield f"{name} price", replace(result, pools={**result.pools, name: changed})
        for figure in ("purchased_macc", "allocated_macc"):
            for value in others(getattr(pool, figure))[:4]:
                changed = replace(pool, **_one(figure, value))
                yield f"{name} {figure}", replace(result, pools={**result.pools, name: changed})
        surplus = result.surplus_nano_per_hour[name]
        for value in others(surplus)[:4]:
            changes = {**result.surplus_nano_per_hour, name: value or 0}
            if value is not None and value != surplus:
                yield f"{name} surplus", replace(result, surplus_nano_per_hour=changes)
        pools = {key: value for key, value in result.pools.items() if key != name}
        yield f"{name} missing", replace(result, pools=pools)
    for name, team in result.teams.items():
        for figure in ("allocated_macc", "opportunistic_macc"):
            for value in others(getattr(team, figure))[:4]:
                altered = replace(team, **_one(figure, value))
                yield f"{name} {figure}", replace(result, teams={**result.teams, name: altered})
        teams = {key: value for key, value in result.teams.items() if key != name}
        yield f"{name} missing", replace(result, teams=teams)
    yield "extra pool", replace(result, pools={**result.pools, "x": PoolResult(0, 0, 0)})
    yield "extra team", replace(result, teams={**result.teams, "x": TeamResult(0, 0)})
    below = result.certificate.pool_prices_below_micro
    if below is None:
        empty = dict.fromkeys(result.pools, 0)
        yield "certificate added", replace(result, certificate=Certificate(empty))
        return
    yield "certificate dropped", replace(result, certificate=Certificate(None))
    for name, price in below.items():
        for value in others(price)[:4]:
            claims = {**below, name: value or 0}
            if claims != below:
                yield f"{name} below", replace(result, certificate=Certificate(claims))


@pytest.mark.parametrize("first_seed", range(0, 1000, 100))
def test_every_altered_field_is_refused(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 100):
        market = draw_market(random.Random(seed).randint)
        result = clear(market)
        assert verify(market, result) == ()
        for what, altered in perturbations(result):
            assert verify(market, altered), f"seed {seed}: {what} passed in {market}"


def test_a_violation_names_its_code_and_place() -> None:
    market = Market(1000, (Pool("p", 0),), (Team("t", "p", 5, (Job("j", 4000, None),)),))
    result = clear(market)
    assert result.reference_price_micro == 5
    moved = {"t": replace(result.teams["t"], allocated_macc=999)}
    (violation,) = verify(market, replace(result, teams=moved))
    assert violation.code == "allocated"
    assert violation.where == '$.teams["t"].allocated_macc'
    assert violation.message == "was 999, must be 1000"


def naive_clear(market: Market) -> ClearingResult:
    """A deliberately wrong clearing: it takes the bottom of a jump, without the blend bound."""
    book = Book(market)

    def bought(pool: Pool, price: int) -> int:
        p = book.pool_price(pool, price) or 0
        if pool.own_supply_macc == 0 or price == 0:
            return book.purchases(pool, price, p)
        return max(0, book.open(pool, p) - pool.own_supply_macc)

    price = market.reserve_price_micro
    while sum(bought(pool, price) for pool in book.pools) > book.shared:
        price += 1
    return replace(clear(market), reference_price_micro=price)


def test_a_clearing_without_the_blend_bound_is_caught() -> None:
    """Canary: the mistake that understates prices by a quarter does not pass."""
    teams = (Team("t", "p", 10**6, (Job("a", 600, 9), Job("b", 900, 5))),)
    market = Market(300, (Pool("p", 700),), teams)
    wrong = naive_clear(market)
    right = clear(market)
    assert wrong.reference_price_micro is not None
    assert right.reference_price_micro is not None
    assert wrong.reference_price_micro < right.reference_price_micro
    assert verify(market, right) == ()
    assert {violation.code for violation in verify(market, wrong)} >= {"oversold"}


def test_a_price_above_the_least_is_caught_even_if_all_else_is_consistent() -> None:
    """Canary: a higher price with honest allocations fails at the certificate alone."""
    market = Market(1000, (Pool("p", 0),), (Team("t", "p", 5, (Job("j", 4000, None),)),))
    dear = clear(replace(market, reserve_price_micro=8))
    claimed = replace(dear, certificate=Certificate({"p": 7}))
    codes = {violation.code for violation in verify(market, claimed)}
    assert "not_least" in codes
