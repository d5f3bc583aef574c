"""Quantities take integers of their range, and nothing else."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from walras_contracts import quantities

RANGES = {
    "Macc": (0, 10**15),
    "PositiveMacc": (1, 10**15),
    "Micro": (-(10**18), 10**18),
    "MicroPerHour": (0, 10**15),
    "PriceMicro": (0, 10**15),
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
