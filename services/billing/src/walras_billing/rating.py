"""What use costs: exact integers, cut at price changes (design §6)."""

from collections.abc import Sequence
from dataclasses import dataclass

from walras_contracts.work import UsageMetered, WorkClass

RATE_DENOMINATOR = 1000 * 1_000_000 * 3_600_000
"""Numerators are price_micro × tariff_ppm × macc × ms; this many make one µcr (3.6·10¹⁵)."""


@dataclass(frozen=True, slots=True)
class PriceSpan:
    """A price (µcr per accelerator-hour) in force over a part of a usage interval."""

    price_micro: int
    start_ms: int
    end_ms: int


def is_free(usage: UsageMetered) -> bool:
    """Whether use costs nothing whatever the price, even without one."""
    return usage.work_class is WorkClass.OPPORTUNISTIC or not usage.billable


def charge_numerator(usage: UsageMetered, spans: Sequence[PriceSpan]) -> int:
    """Return what a usage record costs, in units of 1/:data:`RATE_DENOMINATOR` µcr.

    Parameters
    ----------
    usage
        The record; opportunistic and unbillable use is free.
    spans
        Prices that cover its interval without gap or overlap.

    Notes
    -----
    Linear in time: cutting a record anywhere leaves the sum as it is.
    """
    if is_free(usage):
        return 0
    weight = usage.tariff_ppm * usage.quantity_macc
    limit = usage.limit_micro
    total = 0
    for span in spans:
        price = span.price_micro if limit is None else min(span.price_micro, limit)
        total += price * (span.end_ms - span.start_ms)
    return weight * total


def round_half_even(numerator: int, denominator: int) -> int:
    """Return numerator / denominator rounded to the nearest integer, halves to the even one."""
    quotient, rest = divmod(numerator, denominator)
    doubled = 2 * rest
    if doubled > denominator or (doubled == denominator and quotient % 2):
        quotient += 1
    return quotient
