"""Exact running totals in µcr, and what of them whole µcr show."""

from fractions import Fraction
from math import gcd

from walras_billing.rating import rounded_and_truncated
from walras_contracts.ledger import EXACT_DENOMINATOR_MAX, bounded

Amount = tuple[int, int]
"""An exact amount, µcr: numerator and positive denominator, in any terms."""


class RunningTotal:
    """A total as far as it is posted, with what it is in whole µcr.

    ``rounded``: halves to the even one; ``truncated``: without its fraction. Both are kept, since
    every entry needs them before and after.
    """

    __slots__ = ("denominator", "numerator", "rounded", "truncated")

    def __init__(self, numerator: int = 0, denominator: int = 1) -> None:
        self.numerator = numerator
        self.denominator = denominator
        self.rounded, self.truncated = rounded_and_truncated(numerator, denominator)

    def move_to(self, numerator: int, denominator: int) -> tuple[int, int]:
        """Take a new total; return by how much it changes, rounded and truncated."""
        rounded, truncated = rounded_and_truncated(numerator, denominator)
        by = rounded - self.rounded, truncated - self.truncated
        self.numerator, self.denominator = numerator, denominator
        self.rounded, self.truncated = rounded, truncated
        return by

    def add(self, amount: Amount) -> tuple[int, int]:
        """Add an amount, in lowest terms and :func:`bounded`; return as :meth:`move_to` does."""
        more, per = amount
        numerator, denominator = self.numerator, self.denominator
        if denominator == per:
            # So it is with an income that stays as it is.
            numerator += more
        else:
            numerator = numerator * per + more * denominator
            denominator *= per
        common = gcd(numerator, denominator)
        if common != 1:
            numerator, denominator = numerator // common, denominator // common
        if denominator > EXACT_DENOMINATOR_MAX:
            kept = bounded(Fraction(numerator, denominator))
            numerator, denominator = kept.numerator, kept.denominator
        return self.move_to(numerator, denominator)


def plus(one: Amount, other: Amount) -> Amount:
    """Return the sum of two amounts, in lowest terms."""
    return lowest_terms(one[0] * other[1] + other[0] * one[1], one[1] * other[1])


def lowest_terms(numerator: int, denominator: int) -> Amount:
    """Return a fraction in lowest terms."""
    common = gcd(numerator, denominator)
    return numerator // common, denominator // common
