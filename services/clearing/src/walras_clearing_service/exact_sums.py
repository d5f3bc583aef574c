"""Sums of integers by group that stay exact whatever the numbers are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
"""Integers: int64 where all sums fit, else Python's own."""
INT64_MAX = 2**63 - 1
MOST_IN_COLUMN = 2**52
"""Up to here a group's sum is kept in 64 bits, so that the sums of 2048 columns fit, too."""


def sums_by(group: NDArray[np.int32], values: NDArray[np.int64], groups: int) -> Column:
    """Return the sum of non-negative values by group."""
    fits = sum_of(values) <= MOST_IN_COLUMN
    sums: Column = np.zeros(groups, dtype=np.int64 if fits else object)
    np.add.at(sums, group, values if fits else values.astype(object))
    return sums


def sum_of(values: NDArray[np.int64]) -> int:
    """Return the sum of non-negative values."""
    if int(values.max(initial=0)) * len(values) <= INT64_MAX:
        return int(values.sum())
    return sum(values.tolist())


def products_over(factors: list[int], others: list[int], divisors: list[int]) -> NDArray[np.int64]:
    """Return ⌊factor · other / divisor⌋ of each row; the products may need more than 64 bits."""
    rows = zip(factors, others, divisors, strict=True)
    found = [factor * other // divisor for factor, other, divisor in rows]
    return np.array(found, dtype=np.int64)
