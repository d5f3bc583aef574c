"""The edges of the ranges of design §4: exactly at them accepted, one beyond refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from walras_clearing import (
    ClearingInputError,
    Job,
    Market,
    Pool,
    Team,
    clear,
    clear_reference,
    validate,
)
from walras_clearing.verify import verify

MOST = 10**15
DEAREST = 10**12


def a_market(**changes: Any) -> Market:
    jobs = (Job("j0", 10, 5), Job("j1", 20, None))
    market = Market(
        30, (Pool("p", 7), Pool("q", 0)), (Team("t", "p", 9, jobs), Team("u", "q", 1, ()))
    )
    return replace(market, **changes)


def a_team(bid: int = 9, *jobs: Job) -> Team:
    return Team("t", "p", bid, jobs or (Job("j", 1, None),))


ACCEPTED = {
    "all sizes together": a_market(
        teams=(a_team(9, Job("a", MOST - 1, 1), Job("b", 1, None)), Team("u", "q", 1))
    ),
    "all supplies together": a_market(
        shared_supply_macc=MOST - 8, pools=(Pool("p", 7), Pool("q", 1))
    ),
    "all sizes and all supplies": a_market(
        shared_supply_macc=MOST - 7, teams=(a_team(9, Job("a", MOST, 1)),)
    ),
    "all bids of a pool": a_market(
        teams=(a_team(MOST - 1), Team("u", "p", 1), Team("v", "q", MOST, (Job("j", 9, None),)))
    ),
    "a limit": a_market(teams=(a_team(MOST, Job("a", 50, DEAREST)),)),
    "a reserve": a_market(reserve_price_micro=DEAREST),
    "nothing at all": Market(0, (), ()),
    "supply without pools": Market(5, (), (), 3),
    "the dearest macc": Market(
        1, (Pool("p", 0),), (Team("t", "p", MOST, (Job("j", MOST, None),)),)
    ),
    "the dearest blend": Market(
        1, (Pool("p", 1),), (Team("t", "p", MOST, (Job("j", MOST, None),)),)
    ),
    "the largest products": Market(
        1, (Pool("p", MOST // 2),), (Team("t", "p", MOST, (Job("j", MOST, DEAREST),)),)
    ),
}


@pytest.mark.parametrize("market", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_values_exactly_at_the_edge_are_cleared(market: Market) -> None:
    result = clear(market)
    assert result == clear_reference(market)
    assert verify(market, result) == ()


def test_the_highest_price_that_exists_is_found() -> None:
    # At 10¹⁸ each pool still buys one macc; only the next tick, 1000·10¹⁵ + 1, ends that.
    pools = (Pool("p", 0), Pool("q", 0))
    teams = tuple(Team(pool.pool, pool.pool, MOST, (Job("j", 2, None),)) for pool in pools)
    market = Market(1, pools, teams)
    result = clear(market)
    assert result.reference_price_micro == 10**18 + 1
    assert result == clear_reference(market)
    assert verify(market, result) == ()


REFUSED: dict[str, tuple[Callable[[], Market], str, str]] = {
    "sizes beyond the sum": (
        lambda: a_market(teams=(a_team(9, Job("a", MOST, 1), Job("b", 1, 1)),)),
        "sum_above_maximum",
        "$.teams[0].jobs[1].size_macc",
    ),
    "one size": (
        lambda: a_market(teams=(a_team(9, Job("a", MOST + 1, 1)),)),
        "above_maximum",
        "$.teams[0].jobs[0].size_macc",
    ),
    "supplies beyond the sum": (
        lambda: a_market(shared_supply_macc=MOST - 6),
        "sum_above_maximum",
        "$.pools[0].own_supply_macc",
    ),
    "shared supply": (
        lambda: a_market(shared_supply_macc=MOST + 1),
        "above_maximum",
        "$.shared_supply_macc",
    ),
    "bids of a pool": (
        lambda: a_market(teams=(a_team(MOST), Team("u", "p", 1))),
        "sum_above_maximum",
        "$.teams[1].bid_micro_per_hour",
    ),
    "a bid": (
        lambda: a_market(teams=(a_team(MOST + 1),)),
        "above_maximum",
        "$.teams[0].bid_micro_per_hour",
    ),
    "a limit": (
        lambda: a_market(teams=(a_team(9, Job("a", 1, DEAREST + 1)),)),
        "above_maximum",
        "$.teams[0].jobs[0].limit_micro",
    ),
    "a reserve": (
        lambda: a_market(reserve_price_micro=DEAREST + 1),
        "above_maximum",
        "$.reserve_price_micro",
    ),
    "a weight": (
        lambda: a_market(pools=(Pool("p", 1, 2**63),)),
        "above_maximum",
        "$.pools[0].weight",
    ),
    "a negative size": (
        lambda: a_market(teams=(a_team(9, Job("a", -1, 1)),)),
        "negative",
        "$.teams[0].jobs[0].size_macc",
    ),
    "a negative bid": (
        lambda: a_market(teams=(a_team(-9),)),
        "negative",
        "$.teams[0].bid_micro_per_hour",
    ),
    "a bool": (
        lambda: a_market(shared_supply_macc=True),
        "not_an_integer",
        "$.shared_supply_macc",
    ),
    "a float": (
        lambda: a_market(pools=(Pool("p", 1.0),)),  # type: ignore[arg-type]
        "not_an_integer",
        "$.pools[0].own_supply_macc",
    ),
    "a NumPy integer": (
        lambda: a_market(reserve_price_micro=np.int64(1)),
        "not_an_integer",
        "$.reserve_price_micro",
    ),
    "a float limit": (
        lambda: a_market(teams=(a_team(9, Job("a", 1, 2.5)),)),  # type: ignore[arg-type]
        "not_an_integer",
        "$.teams[0].jobs[0].limit_micro",
    ),
    "two pools of one id": (
        lambda: a_market(pools=(Pool("p", 1), Pool("p", 2))),
        "duplicate_id",
        "$.pools[1].pool",
    ),
    "two teams of one id": (
        lambda: a_market(teams=(a_team(), Team("t", "q", 1))),
        "duplicate_id",
        "$.teams[1].team",
    ),
    "two jobs of one id": (
        lambda: a_market(teams=(a_team(9, Job("a", 1), Job("a", 2)),)),
        "duplicate_id",
        "$.teams[0].jobs[1].job",
    ),
    "an unknown pool": (
        lambda: a_market(teams=(Team("t", "nowhere", 1),)),
        "unknown_pool",
        "$.teams[0].pool",
    ),
    "an empty id": (lambda: a_market(pools=(Pool("", 1),)), "invalid_id", "$.pools[0].pool"),
    "half a surrogate": (
        lambda: a_market(teams=(a_team(9, Job("\ud800", 1)),)),
        "invalid_id",
        "$.teams[0].jobs[0].job",
    ),
    "a number as id": (
        lambda: a_market(pools=(Pool(7, 1),)),  # type: ignore[arg-type]
        "not_a_string",
        "$.pools[0].pool",
    ),
    "a policy nobody knows": (
        lambda: a_market(margin="random"),
        "unknown_policy",
        "$.margin",
    ),
    "an idle policy nobody knows": (
        lambda: a_market(idle_own_supply="burn"),
        "unknown_policy",
        "$.idle_own_supply",
    ),
}


@pytest.mark.parametrize(("build", "code", "path"), REFUSED.values(), ids=REFUSED.keys())
def test_values_beyond_the_edge_are_refused_with_code_and_path(
    build: Callable[[], Market], code: str, path: str
) -> None:
    market = build()
    for function in (validate, clear, clear_reference):
        with pytest.raises(ClearingInputError) as caught:
            function(market)
        assert (caught.value.code, caught.value.path) == (code, path)
        assert caught.value.retriable is False
        assert str(caught.value).isprintable()
