"""Money, quantities and times as people write them, to integers and back, exactly."""

import re
from fractions import Fraction
from typing import Final

from walras.billing_log.amounts import scaled_text

MICRO_PER_CREDIT: Final = 1_000_000
MACC_PER_ACCELERATOR: Final = 1000
MACC_PLACES: Final = 3
UNITS_MS: Final = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
LONGEST: Final = 60
"""Characters of a number; a longer one is in no range."""

_DECIMAL = re.compile(r"\+?[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?")
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|min|h|d)")
_SPANS = re.compile(rf"{_SPAN.pattern}(?: ?{_SPAN.pattern})*")


def micro_of(text: str) -> int:
    """Return the µcr of a decimal number of credits.

    Raises
    ------
    ValueError
        It is no such number, or is finer than a µcr.
    """
    return _scaled(text, MICRO_PER_CREDIT, "credits have at most 6 decimals")


def macc_of(text: str) -> int:
    """Return the macc of a decimal number of accelerators.

    Raises
    ------
    ValueError
        It is no such number, or is finer than a thousandth of an accelerator.
    """
    return _scaled(text, MACC_PER_ACCELERATOR, "accelerators have at most 3 decimals")


def duration_ms(text: str) -> int:
    """Return the milliseconds of a time with its units, such as ``90s`` or ``1h 30min``.

    Raises
    ------
    ValueError
        A unit is missing or unknown, or it is finer than a millisecond.
    """
    if len(text) > LONGEST or not _SPANS.fullmatch(text):
        raise ValueError(
            f"{_shown(text)} is no time: write numbers with ms, s, min, h or d, such as "
            "'90s' or '1h 30min'"
        )
    total = sum(Fraction(number) * UNITS_MS[unit] for number, unit in _SPAN.findall(text))
    if total.denominator != 1:
        raise ValueError(f"{_shown(text)} is no whole number of milliseconds")
    return total.numerator


def duration_text(time_ms: int) -> str:
    """Return a time with its units, exactly: what :func:`duration_ms` reads back."""
    found = []
    rest = time_ms
    for unit, unit_ms in sorted(UNITS_MS.items(), key=lambda each: -each[1]):
        count, rest = divmod(rest, unit_ms)
        if count:
            found.append(f"{count}{unit}")
    return " ".join(found) or "0s"


def accelerators_text(macc: int) -> str:
    """Return macc as accelerators, without zeros at the end."""
    text = scaled_text(macc, MACC_PLACES, commas=True)
    return text.rstrip("0").rstrip(".")


def _scaled(text: str, scale: int, rule: str) -> int:
    if len(text) > LONGEST or not _DECIMAL.fullmatch(text):
        raise ValueError(f"{_shown(text)} is no decimal number that is not negative")
    value = Fraction(text.replace("_", "")) * scale
    if value.denominator != 1:
        raise ValueError(f"{_shown(text)} is too fine: {rule}")
    return value.numerator


def _shown(text: str) -> str:
    return repr(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")
