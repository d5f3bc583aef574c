"""Amounts as decimal text, by integers alone."""

from fractions import Fraction
from typing import Final

from walras_contracts.quantities import PPM

MACC_MS_PER_ACCELERATOR_HOUR: Final = 1000 * 3_600_000
NUMERATOR_PER_MICRO: Final = PPM * MACC_MS_PER_ACCELERATOR_HOUR
"""price × tariff × macc × ms over this is µcr."""
MICRO_PLACES: Final = 6
"""Decimals of a credit: a µcr is the last one."""
UNKNOWN: Final = "unknown"


def half_even(numerator: int, denominator: int) -> int:
    """Return the quotient of two integers, rounded to the nearest, halves to the even one."""
    quotient, rest = divmod(numerator, denominator)
    doubled = 2 * rest
    return quotient + (doubled > denominator or (doubled == denominator and quotient % 2 == 1))


def rounded(value: Fraction) -> int:
    """Return the nearest integer, halves to the even one."""
    return half_even(value.numerator, value.denominator)


def mean_price_micro(numerator: int, macc_ms: int) -> int | None:
    """Return µcr per accelerator-hour of what use costs; None where there is no use."""
    return half_even(numerator, PPM * macc_ms) if macc_ms else None


def decimal_text(numerator: int, denominator: int, places: int, *, commas: bool = False) -> str:
    """Return a quotient with so many decimals, rounded half to even."""
    scaled = half_even(numerator * 10**places, denominator)
    return scaled_text(scaled, places, commas=commas)


def scaled_text(scaled: int, places: int, *, commas: bool = False) -> str:
    """Return ``scaled`` / 10^places as decimal text."""
    whole, parts = divmod(abs(scaled), 10**places)
    sign = "-" if scaled < 0 else ""
    digits = f"{whole:,}" if commas else str(whole)
    return f"{sign}{digits}.{parts:0{places}d}" if places else f"{sign}{digits}"


def credits_text(micro: int | None) -> str:
    """Return µcr as credits, every µcr shown; an unknown amount is no 0."""
    return UNKNOWN if micro is None else scaled_text(micro, MICRO_PLACES, commas=True)


def exact_credits_text(numerator: int) -> str:
    """Return an amount numerator as credits, rounded to a µcr."""
    return credits_text(half_even(numerator, NUMERATOR_PER_MICRO))


def accelerator_hours_text(macc_ms: int, places: int = 3) -> str:
    """Return macc·ms as accelerator-hours."""
    return decimal_text(macc_ms, MACC_MS_PER_ACCELERATOR_HOUR, places, commas=True)


def share_text(part: int, whole: int) -> str:
    """Return a share in percent, one decimal; a share of nothing is unknown."""
    return f"{decimal_text(100 * part, whole, 1)} %" if whole else UNKNOWN
