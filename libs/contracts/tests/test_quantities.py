"""Quantities take integers of their range, and nothing else."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from walras_contracts import quantities
from walras_contracts.accounts import PlatformDocument, PoolDocument
from walras_contracts.market import PoolCycle, PoolPrice
from walras_contracts.money import BalancePublished

RANGES = {
    "Macc": (0, 10**15),
    "PositiveMacc": (1, 10**15),
    "Micro": (-8_784 * 10**15, 8_784 * 10**15),
    "MicroPerHour": (0, 10**15),
    "PriceMicro": (0, 10**18 + 1),
    "LimitMicro": (0, 10**12),
    "LocalPerHour": (0, 10**12),
    "MarketTimeMs": (0, 4_102_444_800_000),
    "DurationMs": (0, 316_224_000_000),
    "Ppm": (0, 10**9),
    "Count": (0, 10**9),
    "Number": (0, 2**53 - 1),
    "NumberOrNone": (-1, 2**53 - 1),
    "DeviceIndex": (0, 10**6),
}
EACH = pytest.mark.parametrize(("name", "low", "high"), [(n, *r) for n, r in RANGES.items()])


def adapter(name: str) -> TypeAdapter[int]:
    return TypeAdapter(getattr(quantities, name))


def test_the_table_names_every_quantity() -> None:
    named = {n for n in vars(quantities) if hasattr(getattr(quantities, n), "__metadata__")}
    assert named == set(RANGES)


@EACH
def test_both_borders_belong_to_the_range_and_their_neighbours_do_not(
    name: str, low: int, high: int
) -> None:
    assert adapter(name).validate_python(low) == low
    assert adapter(name).validate_python(high) == high
    for outside in (low - 1, high + 1):
        with pytest.raises(ValidationError):
            adapter(name).validate_python(outside)


@EACH
@given(value=st.floats() | st.booleans() | st.text() | st.none() | st.decimals())
@settings(deadline=None, max_examples=30)
def test_nothing_but_an_int_is_an_amount(name: str, low: int, high: int, value: Any) -> None:
    with pytest.raises(ValidationError):
        adapter(name).validate_python(value)


@EACH
def test_every_range_fits_int64(name: str, low: int, high: int) -> None:
    assert -(2**63) <= low < high < 2**63


def test_the_largest_pool_can_fill_its_wallet_for_as_long_as_a_platform_may_allow() -> None:
    weight = PoolDocument(
        pool="p", weight_micro_per_hour=quantities.MICRO_PER_HOUR_MAX, teams=()
    ).weight_micro_per_hour
    hours = PlatformDocument(max_balance_hours=quantities.BALANCE_HOURS_MAX).max_balance_hours
    balance = BalancePublished(
        team="t",
        pool="p",
        boundary_ms=0,
        wallet_micro=weight * hours,
        earned_micro=weight * hours,
        spent_micro=0,
        credited_micro=0,
        expired_micro=0,
    )
    assert balance.wallet_micro == weight * hours


def test_the_highest_price_that_an_auction_can_find_can_be_published() -> None:
    """Design §4: P is at most 1000 times the bids of one pool, and a tick."""
    highest = 1000 * quantities.MICRO_PER_HOUR_MAX + 1
    price = PoolPrice(
        pool="p", price_micro=highest, weight_micro_per_hour=0, local_income_per_hour=0
    )
    assert price.price_micro == highest
    cleared = PoolCycle(
        pool="p",
        own_supply_macc=0,
        weight_micro_per_hour=0,
        local_income_per_hour=0,
        price_micro=highest,
        price_below_micro=highest,
        purchased_macc=0,
        allocated_macc=0,
    )
    assert cleared.price_micro == cleared.price_below_micro == highest
