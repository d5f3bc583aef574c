"""From exact amounts to whole µcr: half to even for totals, largest remainder for their lines."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

UNITS_PER_MICRO: Final = 1000 * 1_000_000 * 3_600_000
"""Numerators are price_micro × tariff_ppm × macc × ms; this many make one µcr (3.6·10¹⁵)."""


def rounded_micro(numerator: int) -> int:
    """Return an exact amount in whole µcr, half to even."""
    return round(Fraction(numerator, UNITS_PER_MICRO))


def shared_out(total_micro: int, numerators: Sequence[int]) -> list[int]:
    """Return whole amounts for exact ones, so that they sum to a total (largest remainder).

    Parameters
    ----------
    total_micro
        The sum of what is returned; usually within 1 of the exact sum.
    numerators
        At least one exact amount.

    Returns
    -------
    list
        Each amount rounded down; what then is missing goes one µcr each to those that lost most,
        the first of equals first. Where the total is further off, each gets as much of it more.
    """
    floors = [numerator // UNITS_PER_MICRO for numerator in numerators]
    each, more = divmod(total_micro - sum(floors), len(floors))
    order = sorted(range(len(floors)), key=lambda at: (-(numerators[at] % UNITS_PER_MICRO), at))
    for place, at in enumerate(order):
        floors[at] += each + (1 if place < more else 0)
    return floors
