"""`split` of design §4: the specification meets its definition, and the compiled one equals it."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_clearing.kernel import first_beyond, shared_out
from walras_clearing.reference import split
from walras_clearing.verify import proportional

HUGE = 10**15
WEIGHTS = st.lists(
    st.sampled_from((0, 1, 2, 6)) | st.integers(0, 60) | st.integers(0, HUGE), max_size=12
)


def share(amount: int, weights: list[int]) -> list[int]:
    shares: list[int] = shared_out(amount, np.array(weights, np.int64)).tolist()
    return shares


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


@given(WEIGHTS, st.data())
def test_the_compiled_split_equals_the_specification(
    weights: list[int], data: st.DataObject
) -> None:
    total = sum(weights)
    near = st.sampled_from((0, 1, total // 2, max(0, total - 1), total, total + 1))
    amount = data.draw(near | st.integers(0, total + 5), label="amount")
    assert share(amount, weights) == split(amount, weights) == proportional(amount, weights)


@pytest.mark.parametrize("seed", range(20))
def test_the_compiled_split_equals_the_specification_for_thousands_of_weights(seed: int) -> None:
    rng = random.Random(seed)
    most = 10 ** rng.randrange(1, 13)
    weights = [rng.choice((0, 1, rng.randint(0, most))) for _ in range(1_000)]
    amount = rng.randint(0, sum(weights))
    assert share(amount, weights) == split(amount, weights), f"seed {seed}"


@given(WEIGHTS, st.integers(0, 3 * HUGE), st.integers(0, HUGE))
def test_the_compiled_split_is_monotone_and_spends_the_amount(
    weights: list[int], amount: int, more: int
) -> None:
    less, larger = share(amount, weights), share(amount + more, weights)
    assert sum(less) == min(amount, sum(weights))
    assert all(0 <= one <= weight for one, weight in zip(less, weights, strict=True))
    assert all(one <= other for one, other in zip(less, larger, strict=True))


@given(WEIGHTS.filter(bool), st.integers(0, 3 * HUGE))
def test_every_share_is_within_one_macc_of_the_exact_proportion(
    weights: list[int], amount: int
) -> None:
    total = sum(weights)
    amount = min(amount, total)
    members = sum(weight > 0 for weight in weights)
    for given_out, weight in zip(share(amount, weights), weights, strict=True):
        # ⌊m·h/M⌋ with the height between the amount and one macc a member above it.
        low, high = weight * amount // max(1, total), weight * (amount + members) // max(1, total)
        assert low <= given_out <= high + 1


def test_products_beyond_64_bits_are_exact() -> None:
    weights = [HUGE - 1, 1, HUGE // 3, 7]
    for amount in (1, HUGE // 2, HUGE, sum(weights) - 1):
        assert share(amount, weights) == split(amount, weights)


def test_no_weights_and_zero_weights_get_nothing() -> None:
    assert share(5, []) == []
    assert share(5, [0, 0, 0]) == [0, 0, 0]
    assert share(0, [3, 4]) == [0, 0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=30), st.integers(9, 40))
def test_the_first_row_beyond_a_sum_is_the_one_that_a_loop_finds(
    rows: list[tuple[int, int]], maximum: int
) -> None:
    sums, expected = [0] * 4, -1
    for row, (group, value) in enumerate(rows):
        sums[group] += value
        if sums[group] > maximum:
            expected = row
            break
    groups = np.array([group for group, _ in rows], np.int32)
    values = np.array([value for _, value in rows], np.int64)
    assert first_beyond(values, groups, 4, maximum) == expected


def test_shares_by_largest_remainders_would_be_caught() -> None:
    """Canary of this file: the usual rule gives less of a larger amount to the third weight."""

    def by_remainders(amount: int, weights: list[int]) -> list[int]:
        total = sum(weights)
        shares = [weight * amount // total for weight in weights]
        by_rest = sorted(range(len(weights)), key=lambda i: -(weights[i] * amount % total))
        for i in by_rest[: amount - sum(shares)]:
            shares[i] += 1
        return shares

    assert by_remainders(3, [6, 6, 2])[2] > by_remainders(4, [6, 6, 2])[2]
    assert by_remainders(3, [6, 6, 2]) != share(3, [6, 6, 2])
