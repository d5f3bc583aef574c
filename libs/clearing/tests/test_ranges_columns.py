"""The edges of the ranges for markets in columns: at the edge cleared, one beyond refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from walras_clearing import (
    Book,
    ClearedArrays,
    ClearingInputError,
    MarketArrays,
    clear,
    clear_arrays,
    clear_reference,
    verify_arrays,
)
from walras_clearing.arrays import ABSENT, NO_LIMIT, Column, Numbers
from walras_clearing.columns import check_bids, column, integer, limit_of, numbers, order_of, whole
from walras_clearing.pack import pack, unpack
from walras_clearing.testing_columns import named

MOST = 10**15
DEAREST = 10**12
HEAVIEST = 2**63 - 1


def amounts(*values: int) -> Column:
    return np.array(values, np.int64)


def handles(*values: int) -> Numbers:
    return np.array(values, np.int32)


def a_market(**changes: Any) -> MarketArrays:
    market = MarketArrays(
        shared_supply_macc=30,
        own_supply_macc=amounts(7, 0),
        pool_weight=amounts(0, 1),
        pool_of_team=handles(0, 1),
        bid_micro_per_hour=amounts(9, 1),
        team_of_job=handles(0, 0, 1),
        size_macc=amounts(10, 20, 5),
        limit_micro=amounts(5, NO_LIMIT, 0),
    )
    return replace(market, **changes)


def no_rows() -> dict[str, Any]:
    return {name: amounts() for name in ("size_macc", "limit_micro")} | {"team_of_job": handles()}


ACCEPTED = {
    "all sizes together": a_market(size_macc=amounts(MOST - 2, 1, 1)),
    "one size": a_market(size_macc=amounts(MOST, 0, 0)),
    "all supplies together": a_market(shared_supply_macc=MOST - 8, own_supply_macc=amounts(7, 1)),
    "all sizes and all supplies": a_market(
        shared_supply_macc=MOST - 7, size_macc=amounts(MOST - 5, 5, 0)
    ),
    "all bids of a pool": a_market(
        pool_of_team=handles(0, 0), bid_micro_per_hour=amounts(MOST - 1, 1)
    ),
    "all bids of both pools": a_market(bid_micro_per_hour=amounts(MOST, MOST)),
    "a limit": a_market(
        limit_micro=amounts(DEAREST, DEAREST, 1), bid_micro_per_hour=amounts(MOST, 1)
    ),
    "a reserve": a_market(reserve_price_micro=DEAREST),
    "a weight": a_market(pool_weight=amounts(HEAVIEST, HEAVIEST), margin="strict_order"),
    "an order": a_market(team_order=handles(1, 0)),
    "no jobs": a_market(**no_rows()),
    "no teams": a_market(
        **no_rows(), pool_of_team=handles(), bid_micro_per_hour=amounts(), team_order=handles()
    ),
    "nothing at all": MarketArrays(
        0, amounts(), amounts(), handles(), amounts(), handles(), amounts(), amounts()
    ),
    "empty columns of floats": MarketArrays(
        5, *(np.array([]),) * 7, reserve_price_micro=3, idle_own_supply="lend"
    ),
    "the dearest blend": a_market(
        shared_supply_macc=1, size_macc=amounts(0, MOST, 0), bid_micro_per_hour=amounts(MOST, MOST)
    ),
}


@pytest.mark.parametrize("market", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_columns_exactly_at_the_edge_are_cleared(market: MarketArrays) -> None:
    result = clear_arrays(market)
    assert verify_arrays(market, result) == ()
    if market.team_order is None:
        named_market = named(market)
        assert unpack(pack(named_market), result) == clear_reference(named_market)
        assert clear(named_market) == clear_reference(named_market)


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "sizes beyond the sum": (
        {"size_macc": amounts(MOST - 2, 2, 1)},
        "sum_above_maximum",
        "size_macc[2]",
    ),
    "one size": ({"size_macc": amounts(0, MOST + 1, 0)}, "above_maximum", "size_macc[1]"),
    "a negative size": ({"size_macc": amounts(0, 0, -1)}, "negative", "size_macc[2]"),
    "a limit": ({"limit_micro": amounts(5, DEAREST + 1, 0)}, "above_maximum", "limit_micro[1]"),
    "a limit just below none": (
        {"limit_micro": amounts(5, NO_LIMIT - 1, 0)},
        "above_maximum",
        "limit_micro[1]",
    ),
    "a negative limit": ({"limit_micro": amounts(-1, 5, 0)}, "negative", "limit_micro[0]"),
    "a team that is not there": (
        {"team_of_job": handles(0, 2, 1)},
        "unknown_team",
        "team_of_job[1]",
    ),
    "a negative team": ({"team_of_job": handles(-1, 0, 1)}, "unknown_team", "team_of_job[0]"),
    "a pool that is not there": (
        {"pool_of_team": handles(0, 2)},
        "unknown_pool",
        "pool_of_team[1]",
    ),
    "a negative pool": ({"pool_of_team": handles(-1, 0)}, "unknown_pool", "pool_of_team[0]"),
    "a bid": (
        {"bid_micro_per_hour": amounts(0, MOST + 1)},
        "above_maximum",
        "bid_micro_per_hour[1]",
    ),
    "a negative bid": (
        {"bid_micro_per_hour": amounts(0, -7)},
        "negative",
        "bid_micro_per_hour[1]",
    ),
    "bids of a pool": (
        {"pool_of_team": handles(1, 1), "bid_micro_per_hour": amounts(1, MOST)},
        "sum_above_maximum",
        "bid_micro_per_hour[1]",
    ),
    "own supply": (
        {"own_supply_macc": amounts(0, MOST + 1)},
        "above_maximum",
        "own_supply_macc[1]",
    ),
    "negative own supply": (
        {"own_supply_macc": amounts(0, -1)},
        "negative",
        "own_supply_macc[1]",
    ),
    "supplies beyond the sum": (
        {"shared_supply_macc": MOST - 6},
        "sum_above_maximum",
        "own_supply_macc",
    ),
    "shared supply": ({"shared_supply_macc": MOST + 1}, "above_maximum", "shared_supply_macc"),
    "negative shared supply": ({"shared_supply_macc": -1}, "negative", "shared_supply_macc"),
    "a bool as supply": ({"shared_supply_macc": True}, "not_an_integer", "shared_supply_macc"),
    "a float as supply": ({"shared_supply_macc": 1.0}, "not_an_integer", "shared_supply_macc"),
    "a reserve": ({"reserve_price_micro": DEAREST + 1}, "above_maximum", "reserve_price_micro"),
    "a negative reserve": ({"reserve_price_micro": -1}, "negative", "reserve_price_micro"),
    "a negative weight": ({"pool_weight": amounts(0, -1)}, "negative", "pool_weight[1]"),
    "a weight beyond 64 bits": (
        {"pool_weight": np.array([0, 2**63], np.uint64)},
        "above_maximum",
        "pool_weight",
    ),
    "a margin nobody knows": ({"margin": "random"}, "unknown_policy", "margin"),
    "an idle policy nobody knows": (
        {"idle_own_supply": "burn"},
        "unknown_policy",
        "idle_own_supply",
    ),
    # Views of one number each: nothing of that length is held.
    "more jobs than 32 bits count": (
        {"team_of_job": np.broadcast_to(np.int32(0), (2**31,))},
        "above_maximum",
        "team_of_job",
    ),
    "more teams than 32 bits count": (
        {"pool_of_team": np.broadcast_to(np.int32(0), (2**31,))},
        "above_maximum",
        "pool_of_team",
    ),
    "an order that repeats": ({"team_order": handles(1, 1)}, "duplicate_id", "team_order"),
    "an order of too many": ({"team_order": handles(0, 1, 1)}, "wrong_length", "team_order"),
    "an order of others": ({"team_order": handles(0, 2)}, "unknown_team", "team_order[1]"),
}
COLUMNS = (
    "own_supply_macc",
    "pool_weight",
    "pool_of_team",
    "bid_micro_per_hour",
    "team_of_job",
    "size_macc",
    "limit_micro",
)


@pytest.mark.parametrize(("changes", "code", "path"), REFUSED.values(), ids=REFUSED.keys())
def test_columns_beyond_the_edge_are_refused_with_code_and_path(
    changes: dict[str, Any], code: str, path: str
) -> None:
    with pytest.raises(ClearingInputError) as caught:
        clear_arrays(a_market(**changes))
    assert (caught.value.code, caught.value.path) == (code, path)
    assert caught.value.retriable is False


@pytest.mark.parametrize(("changes", "code", "path"), REFUSED.values(), ids=REFUSED.keys())
def test_no_result_is_verified_against_columns_beyond_the_edge(
    changes: dict[str, Any], code: str, path: str
) -> None:
    """The verification reads the columns with code of its own, so the place may be wider."""
    with pytest.raises(ClearingInputError) as caught:
        verify_arrays(a_market(**changes), clear_arrays(a_market()))
    assert caught.value.code == code
    assert path.split("[", maxsplit=1)[0] in caught.value.path


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_another_kind_or_form_is_refused(name: str) -> None:
    right = getattr(a_market(), name)
    wrong = {
        "floats": right.astype(np.float64),
        "bools": right > 0,
        "objects": right.astype(object),
        "text": right.astype(str),
        "two dimensions": right.reshape(1, -1),
        "no dimension": np.int64(3),
        "beyond 64 bits": np.full(len(right), 2**63 + 5, np.uint64),
        "too long": np.concatenate([right, right[:1]]),
    }
    # The columns whose lengths say how many pools, teams and jobs there are.
    leads = name in {"own_supply_macc", "pool_of_team", "team_of_job"}
    for what, values in wrong.items():
        expected = {"not_an_integer"}
        if what == "too long":
            expected = {"wrong_length"}
        elif what == "beyond 64 bits":
            expected = {"above_maximum"}
        elif what == "no dimension" and leads:
            with pytest.raises(TypeError):
                clear_arrays(a_market(**{name: values}))
            continue
        elif what == "two dimensions" and leads:
            # Its length is one, which another column may contradict first.
            expected = {"not_an_integer", "wrong_length", "unknown_pool"}
        with pytest.raises(ClearingInputError) as caught:
            clear_arrays(a_market(**{name: values}))
        assert caught.value.code in expected, what


def test_sums_are_checked_where_64_bits_would_wrap_around_to_a_small_one() -> None:
    # 2⁶⁴ / 10¹⁵ is 18,446.7: one more of the largest values wraps around to less than one of them.
    count = 18_447
    assert (count * MOST) % 2**64 < MOST
    most = np.full(count, MOST, np.int64)
    zeros = np.zeros(count, np.int32)
    wrapping: tuple[dict[str, Any], ...] = (
        {"size_macc": most, "limit_micro": most * 0, "team_of_job": zeros},
        {"own_supply_macc": most, "pool_weight": most * 0},
        {"bid_micro_per_hour": most, "pool_of_team": zeros},
    )
    for changes in wrapping:
        market = a_market(**changes)
        with pytest.raises(ClearingInputError, match="sum_above_maximum"):
            clear_arrays(market)
        with pytest.raises(ClearingInputError, match="sum_above_maximum"):
            verify_arrays(market, no_result(market))
    book = Book(1)
    book.set_teams(zeros)
    with pytest.raises(ClearingInputError, match="sum_above_maximum"):
        book.set_bids(most)
    with pytest.raises(ClearingInputError, match="sum_above_maximum"):
        book.upsert_jobs(np.arange(count), zeros, most, most * 0)
    assert len(book) == 0


def no_result(market: MarketArrays) -> ClearedArrays:
    pools = np.zeros(len(market.own_supply_macc), np.int64)
    teams = np.zeros(len(market.pool_of_team), np.int64)
    return ClearedArrays(0, pools, pools, pools, None, teams, teams)


def test_bids_are_summed_per_pool_whoever_sets_them() -> None:
    book = Book(2)
    book.set_teams(handles(0, 1, 0))
    book.set_bids(amounts(MOST - 5, MOST, 5))
    book.set_bid(0, MOST - 5)
    for team, bid in ((0, MOST - 4), (2, 6)):
        with pytest.raises(ClearingInputError, match="sum_above_maximum"):
            book.set_bid(team, bid)
    with pytest.raises(ClearingInputError) as caught:
        book.set_bids(amounts(MOST, 0, 1))
    assert caught.value.path == "bid_micro_per_hour[2]"
    # What one gives up another may bid.
    book.set_bid(0, 0)
    book.set_bid(2, MOST)
    book.set_bids(amounts(MOST, MOST, 0))
    assert book.market().bid_micro_per_hour.tolist() == [MOST, MOST, 0]


@pytest.mark.parametrize(
    ("read", "code", "path"),
    [
        (lambda: column("c", [0, 4], 2, 3), "above_maximum", "c[1]"),
        (lambda: column("c", [0, -4], 2, 3), "negative", "c[1]"),
        (lambda: column("c", [0, 4], 3, 9), "wrong_length", "c"),
        (lambda: numbers("n", [0, 4], 2, 4, "unknown_pool"), "unknown_pool", "n[1]"),
        (lambda: numbers("n", [-4, 0], 2, 4, "unknown_job"), "unknown_job", "n[0]"),
        (lambda: numbers("n", [2**31, 0], 2, 4, "unknown_job"), "above_maximum", "n"),
        (lambda: numbers("n", [-(2**31) - 1], 1, 4, "unknown_job"), "above_maximum", "n"),
        (lambda: order_of([0, 0], 2), "duplicate_id", "team_order"),
        (lambda: order_of([0, 2], 2), "unknown_team", "team_order[1]"),
        (lambda: whole("w", [0.0], 1, np.int64), "not_an_integer", "w"),
        (lambda: whole("w", [2**63], 1, np.int64), "above_maximum", "w"),
        (lambda: whole("w", [2**64], 1, np.int64), "not_an_integer", "w"),
        (lambda: integer("i", 4, 3), "above_maximum", "i"),
        (lambda: integer("i", -1, 3), "negative", "i"),
        (lambda: integer("i", np.int64(1), 3), "not_an_integer", "i"),
        (lambda: integer("i", None, 3), "not_an_integer", "i"),
        (lambda: limit_of("l", DEAREST + 1), "above_maximum", "l"),
        (lambda: limit_of("l", -1), "negative", "l"),
        (lambda: check_bids(amounts(MOST, 1), handles(0, 0), 1), "sum_above_maximum", "bid_mi"),
    ],
)
def test_every_check_of_a_column_has_its_code_and_place(
    read: Callable[[], object], code: str, path: str
) -> None:
    with pytest.raises(ClearingInputError) as caught:
        read()
    assert caught.value.code == code
    assert caught.value.path.startswith(path)


def test_what_the_checks_return_is_contiguous_and_of_the_right_kind() -> None:
    found = column("c", np.arange(12, dtype=np.uint8)[::3], 4, 9)
    assert found.dtype == np.int64
    assert found.tolist() == [0, 3, 6, 9]
    assert found.flags["C_CONTIGUOUS"]
    assert numbers("n", [3, 0], 2, 4, "unknown_pool").dtype == np.int32
    assert order_of(None, 7) is None
    order = order_of([2, 0, 1], 3)
    assert order is not None
    assert order.dtype == np.int32
    assert limit_of("l", None) == NO_LIMIT
    assert limit_of("l", 0) == 0
    assert whole("w", [], 0, np.int64).dtype == np.int64
    assert integer("i", 3, 3) == 3


def test_a_price_that_does_not_exist_is_absent_in_columns() -> None:
    result = clear_arrays(a_market(shared_supply_macc=0))
    assert result.reference_price_micro is None
    assert result.price_micro[1] == ABSENT
    assert result.price_below_micro is None
