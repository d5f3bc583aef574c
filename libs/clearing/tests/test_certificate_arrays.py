"""`verify_arrays` accepts every right result, refuses every altered one, and judges as `verify`."""

import random
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from walras_clearing import ClearedArrays, Market, MarketArrays, clear_arrays, verify, verify_arrays
from walras_clearing.arrays import ABSENT, NO_LIMIT
from walras_clearing.certificate import REPORTED_MAX
from walras_clearing.pack import Packed, pack, unpack
from walras_clearing.testing import draw_market
from walras_clearing.testing_columns import draw_columns, shuffled

COLUMNS = tuple(
    field.name for field in fields(ClearedArrays) if field.name != "reference_price_micro"
)
LEAST, MOST = -(2**63), 2**63 - 1


def others(value: int) -> set[int]:
    """Values of 64 bits near one and far from it."""
    near = {value + 1, value - 1, 2 * value + 3, -value, 0, ABSENT, value + 10**6}
    far = {LEAST, LEAST + 1, MOST, MOST - 1, 2**62, 2**53 + 1, 10**18 + 2}
    return {other for other in near | far if LEAST <= other <= MOST} - {value}


def altered_values(result: ClearedArrays) -> Iterator[tuple[str, ClearedArrays]]:
    """Every result that differs in one value."""
    price = result.reference_price_micro
    prices: set[int | None] = {0, 1, None, *others(price or 0), 2**63, 10**30, -(10**30)}
    for other in prices - {price}:
        yield f"reference price {other}", replace(result, reference_price_micro=other)
    for name in COLUMNS:
        column = getattr(result, name)
        if column is None:
            continue
        for row, value in enumerate(column.tolist()):
            for other in others(value):
                changed = column.copy()
                changed[row] = other
                changes: dict[str, Any] = {name: changed}
                yield f"{name}[{row}] {other}", replace(result, **changes)


def altered_forms(result: ClearedArrays) -> Iterator[tuple[str, ClearedArrays]]:
    """Every result in which one column is there, missing, or of another form."""
    for name in COLUMNS:
        column = getattr(result, name)
        if column is None:
            pools = len(result.price_micro)
            for fill in (0, ABSENT):
                changes: dict[str, Any] = {name: np.full(pools, fill, np.int64)}
                yield f"{name} added", replace(result, **changes)
            continue
        forms: dict[str, object] = {
            "missing": None,
            "longer": np.concatenate([column, column[-1:], [0]]),
            "shorter": column[:-1] if len(column) else np.zeros(1, np.int64),
            "in 32 bits": np.zeros(len(column), np.int32),
            "unsigned": np.abs(column).astype(np.uint64),
            "of floats": column.astype(np.float64),
            "of objects": column.astype(object),
            "in two dimensions": column.reshape(1, -1),
            "a list": column.tolist(),
        }
        for form, values in forms.items():
            changes = {name: values}
            yield f"{name} {form}", replace(result, **changes)
    kinds: tuple[Any, ...] = (True, 1.0, "1", np.float64(2))
    for kind in kinds:
        yield f"reference price {kind!r}", replace(result, reference_price_micro=kind)


def accepts(packed: Packed, market: Market, result: ClearedArrays) -> bool:
    """The verdict of `verify` on the same result by name."""
    return verify(market, unpack(packed, result)) == ()


@pytest.mark.parametrize("first_seed", range(0, 100, 50))
def test_every_altered_value_is_refused_as_verify_refuses_it(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        market = draw_market(random.Random(seed).randint)
        packed = pack(market)
        result = clear_arrays(packed.arrays)
        assert verify_arrays(packed.arrays, result) == (), f"seed {seed}"
        assert accepts(packed, market, result), f"seed {seed}"
        for number, (what, altered) in enumerate(altered_values(result)):
            assert verify_arrays(packed.arrays, altered), f"seed {seed}: {what} passed"
            if number % 5 == seed % 5:
                assert not accepts(packed, market, altered), f"seed {seed}: {what}"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first_seed", range(10_000, 12_000, 500))
def test_every_altered_value_of_2000_markets_is_refused(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 500):
        arrays = pack(draw_market(random.Random(seed).randint)).arrays
        for what, altered in altered_values(clear_arrays(arrays)):
            assert verify_arrays(arrays, altered), f"seed {seed}: {what} passed"


@pytest.mark.parametrize("first_seed", range(0, 60, 20))
def test_every_altered_form_is_refused(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 20):
        arrays = pack(draw_market(random.Random(seed).randint)).arrays
        for what, altered in altered_forms(clear_arrays(arrays)):
            assert verify_arrays(arrays, altered), f"seed {seed}: {what} passed"


@pytest.mark.parametrize("seed", range(3))
def test_in_large_markets_altered_rows_are_refused_wherever_they_are(seed: int) -> None:
    arrays = shuffled(draw_columns(seed), seed)[0]
    result = clear_arrays(arrays)
    rng = random.Random(seed)
    altered = [one for _, one in altered_values(result)]
    for one in rng.sample(altered, 150):
        assert verify_arrays(arrays, one), f"seed {seed}"


@pytest.mark.parametrize("seed", range(200))
def test_what_one_market_clears_to_is_no_result_of_a_market_that_differs(seed: int) -> None:
    """Swapped results: both are right somewhere, so all their figures are consistent."""
    one = pack(draw_market(random.Random(seed).randint)).arrays
    other = replace(one, shared_supply_macc=one.shared_supply_macc + 1 + seed)
    theirs, ours = clear_arrays(other), clear_arrays(one)
    same = all(np.array_equal(getattr(ours, name), getattr(theirs, name)) for name in COLUMNS)
    same &= ours.reference_price_micro == theirs.reference_price_micro
    assert (verify_arrays(one, theirs) == ()) == same, f"seed {seed}"


def test_a_violation_names_its_code_column_and_row() -> None:
    arrays = MarketArrays(
        shared_supply_macc=1000,
        own_supply_macc=np.zeros(1, np.int64),
        pool_weight=np.zeros(1, np.int64),
        pool_of_team=np.zeros(2, np.int32),
        bid_micro_per_hour=np.array([0, 5], np.int64),
        team_of_job=np.ones(1, np.int32),
        size_macc=np.array([4000], np.int64),
        limit_micro=np.array([NO_LIMIT], np.int64),
    )
    result = clear_arrays(arrays)
    assert result.reference_price_micro == 5
    result.allocated_macc[1] -= 1
    (violation,) = verify_arrays(arrays, result)
    assert violation.code == "allocated"
    assert violation.where == "allocated_macc[1]"
    assert violation.message == "was 999, must be 1000"


def test_a_result_that_is_wrong_everywhere_is_reported_up_to_a_bound() -> None:
    arrays = draw_columns(1, teams=300)
    result = clear_arrays(arrays)
    result.opportunistic_macc[:] += 1
    assert len(verify_arrays(arrays, result)) == REPORTED_MAX


def test_a_price_above_the_least_is_caught_even_if_all_else_is_consistent() -> None:
    """Canary: a higher price with honest allocations fails at the certificate alone."""
    arrays = draw_columns(3, pools=1, teams=5, jobs=400, limits="none")
    arrays = replace(arrays, own_supply_macc=np.zeros(1, np.int64), reserve_price_micro=0)
    price = clear_arrays(arrays).reference_price_micro
    assert price is not None
    dear = clear_arrays(replace(arrays, reserve_price_micro=price + 3))
    claimed = replace(dear, price_below_micro=np.array([price + 2], np.int64))
    assert {violation.code for violation in verify_arrays(arrays, claimed)} == {"not_least"}
