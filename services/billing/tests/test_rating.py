"""Rating: exact, linear in time, never a guess."""

import random
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_billing.prices import PriceHistory
from walras_billing.rating import (
    RATE_DENOMINATOR,
    PriceSpan,
    charge_numerator,
    round_half_even,
)
from walras_billing.sequences import Sequence
from walras_contracts.market import PoolPrice, PricePublished
from walras_contracts.quantities import PPM
from walras_contracts.work import UsageMetered, WorkClass

HOUR_MS = 3_600_000
PROPERTY = settings(deadline=None, max_examples=100)


def usage(
    start_ms: int,
    end_ms: int,
    *,
    macc: int = 1000,
    work_class: WorkClass = WorkClass.MARKET,
    billable: bool = True,
    limit: int | None = None,
    tariff_ppm: int = PPM,
) -> UsageMetered:
    return UsageMetered(
        lease="l",
        node="n",
        attempt=1,
        seq=0,
        team="t",
        pool="p",
        job="j",
        market="a",
        quantity_macc=macc,
        start_ms=start_ms,
        end_ms=end_ms,
        work_class=work_class,
        billable=billable,
        limit_micro=limit,
        tariff_ppm=tariff_ppm,
    )


def price(at_ms: int, micro: int | None) -> PricePublished:
    return PricePublished(
        market="a",
        cycle=0,
        market_time_ms=at_ms,
        reference_price_micro=micro,
        pools=(
            PoolPrice(
                pool="p", price_micro=micro, weight_micro_per_hour=1, local_income_per_hour=1
            ),
        ),
    )


def history(*changes: tuple[int, int | None]) -> PriceHistory:
    prices = PriceHistory()
    for at_ms, micro in changes:
        prices.put(price(at_ms, micro))
    return prices


def charged(prices: PriceHistory, record: UsageMetered) -> int:
    spans = prices.spans("a", "p", record.start_ms, record.end_ms)
    assert spans is not None
    return charge_numerator(record, spans)


def test_an_accelerator_for_an_hour_costs_its_price() -> None:
    record = usage(0, HOUR_MS, macc=1000)

    assert charge_numerator(record, [PriceSpan(2_500_000, 0, HOUR_MS)]) == (
        2_500_000 * RATE_DENOMINATOR
    )


@pytest.mark.parametrize(
    ("record", "cost_micro"),
    [
        (usage(0, HOUR_MS, limit=7), 7),
        (usage(0, HOUR_MS, limit=900), 100),
        (usage(0, HOUR_MS, macc=2500), 250),
        (usage(0, HOUR_MS, tariff_ppm=500_000), 50),
        (usage(0, HOUR_MS, work_class=WorkClass.OVERHANG), 100),
        (usage(0, HOUR_MS, work_class=WorkClass.OVERHANG, billable=False), 0),
        (usage(0, HOUR_MS, work_class=WorkClass.OPPORTUNISTIC), 0),
    ],
)
def test_limit_size_tariff_and_class_count(record: UsageMetered, cost_micro: int) -> None:
    assert charged(history((0, 100)), record) == cost_micro * RATE_DENOMINATOR


CHANGES = st.lists(
    st.tuples(st.integers(1, 10_000), st.integers(0, 10**12)), max_size=6, unique_by=lambda c: c[0]
)


@PROPERTY
@given(
    changes=CHANGES,
    first=st.integers(0, 10**12),
    cuts=st.lists(st.integers(1, 9_999), max_size=6, unique=True),
    limit=st.one_of(st.none(), st.integers(0, 10**12)),
    macc=st.integers(1, 10**7),
)
def test_cutting_usage_anywhere_leaves_the_sum_of_charges_unchanged(
    changes: list[tuple[int, int]],
    first: int,
    cuts: list[int],
    limit: int | None,
    macc: int,
) -> None:
    prices = history((0, first), *changes)
    edges = [0, *sorted(cuts), 10_000]
    parts = [usage(a, b, macc=macc, limit=limit) for a, b in pairwise(edges)]

    assert sum(charged(prices, part) for part in parts) == charged(
        prices, usage(0, 10_000, macc=macc, limit=limit)
    )


@PROPERTY
@given(changes=CHANGES, first=st.integers(0, 10**12))
def test_a_charge_is_the_sum_over_milliseconds_of_the_price_in_force(
    changes: list[tuple[int, int]], first: int
) -> None:
    in_force, total = first, 0
    by_time = dict(changes)
    for at_ms in range(10_000):
        in_force = by_time.get(at_ms, in_force)
        total += in_force

    assert charged(history((0, first), *changes), usage(0, 10_000)) == total * 1000 * PPM


@PROPERTY
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 2)), max_size=12, unique_by=lambda c: c[0]
    ),
    order=st.randoms(use_true_random=False),
)
def test_the_history_does_not_depend_on_the_order_in_which_prices_came(
    changes: list[tuple[int, int]], order: random.Random
) -> None:
    shuffled = list(changes)
    order.shuffle(shuffled)
    one, other = history(*sorted(changes)), history(*shuffled)
    for at_ms in range(60):
        assert one.spans("a", "p", at_ms, 60) == other.spans("a", "p", at_ms, 60)


def test_a_price_is_unknown_before_the_first_and_where_the_pool_has_none() -> None:
    prices = history((1000, 5), (2000, None), (3000, 6))

    assert prices.spans("a", "p", 999, 1001) is None
    assert prices.spans("a", "p", 1500, 2001) is None
    assert prices.spans("a", "p", 1500, 2000) == [PriceSpan(5, 1500, 2000)]
    assert prices.spans("a", "other", 1500, 2000) is None
    assert prices.spans("b", "p", 1500, 2000) is None


def test_pruning_keeps_the_price_that_is_in_force() -> None:
    prices = history((0, 1), (1000, 2), (2000, 3))

    assert list(prices.prune(1500)) == [("a", 0)]
    assert prices.spans("a", "p", 1500, 1600) == [PriceSpan(2, 1500, 1600)]
    assert prices.spans("a", "p", 500, 600) is None


@PROPERTY
@given(numerator=st.integers(-(10**30), 10**30), denominator=st.integers(1, 10**16))
def test_rounding_is_half_even_like_that_of_fractions(numerator: int, denominator: int) -> None:
    assert round_half_even(numerator, denominator) == round(Fraction(numerator, denominator))


@pytest.mark.parametrize(("numerator", "rounded"), [(1, 0), (3, 2), (5, 2), (-1, 0), (-3, -2)])
def test_halves_go_to_the_even_neighbour(numerator: int, rounded: int) -> None:
    assert round_half_even(numerator, 2) == rounded


@PROPERTY
@given(numbers=st.lists(st.integers(0, 12), max_size=30))
def test_each_number_of_a_source_is_taken_once_in_whatever_order(numbers: list[int]) -> None:
    sequence = Sequence()
    seen: set[int] = set()
    for number in numbers:
        assert sequence.take(number, number) is (number not in seen)
        seen.add(number)
        sequence = Sequence.parse(sequence.fields())
