"""Decimals of the export: made of integers, never of floats."""

from decimal import Decimal
from typing import Final

from walras.billing_log.amounts import (
    MACC_MS_PER_ACCELERATOR_HOUR,
    MICRO_PLACES,
    NUMERATOR_PER_MICRO,
    half_even,
)
from walras.focus.columns import PLACES
from walras_contracts.quantities import PPM

MACC_MS_PER_ACCELERATOR_SECOND: Final = 1_000_000


def scaled(value: int, places: int = PLACES) -> Decimal:
    """Return ``value`` / 10^places, exactly."""
    digits = tuple(int(digit) for digit in str(abs(value)))
    return Decimal((int(value < 0), digits, -places))


def cost(numerator: int) -> Decimal:
    """Return an amount numerator in credits."""
    return scaled(cost_units(numerator))


def cost_units(numerator: int) -> int:
    """Return an amount numerator in the last decimal of a cost."""
    return half_even(numerator * 10 ** (PLACES - MICRO_PLACES), NUMERATOR_PER_MICRO)


def credits_of_micro(micro: int) -> Decimal:
    """Return µcr in credits."""
    return scaled(micro * 10 ** (PLACES - MICRO_PLACES))


def unit_price(price_micro: int, tariff_ppm: int) -> Decimal:
    """Return a price with its tariff in credits per accelerator-hour, exactly."""
    return scaled(price_micro * tariff_ppm * 10 ** (PLACES - MICRO_PLACES) // PPM)


def accelerator_hours(macc_ms: int) -> Decimal:
    """Return macc·ms in accelerator-hours."""
    return scaled(half_even(macc_ms * 10**PLACES, MACC_MS_PER_ACCELERATOR_HOUR))


def accelerator_seconds(macc_ms: int) -> Decimal:
    """Return macc·ms in accelerator-seconds, exactly."""
    return scaled(macc_ms * 10**PLACES // MACC_MS_PER_ACCELERATOR_SECOND)
