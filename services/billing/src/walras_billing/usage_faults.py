"""Why usage is not charged: coded, in order of precedence."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from walras_billing.rating import RATE_DENOMINATOR
from walras_contracts.quantities import (
    LIMIT_MICRO_MAX,
    MACC_MAX,
    MARKET_TIME_MS_MAX,
    MICRO_MAX,
    MICRO_PER_HOUR_MAX,
    NUMBER_MAX,
    PPM,
)

DAY_MS: Final = 86_400_000
"""The longest usage interval that can be right; sources cut every 60 s."""
WEIGHT_MAX: Final = MICRO_MAX * RATE_DENOMINATOR // MICRO_PER_HOUR_MAX
"""The largest weight (tariff_ppm × macc × ms) of a record: 8784 accelerator-hours. At 10¹⁵ µcr an
accelerator-hour, as much as the largest income, it costs `MICRO_MAX`; more than that neither a
ledger entry nor an invoice can say."""


class UsageFault(StrEnum):
    """Stable codes; a retired one keeps its name."""

    MALFORMED = "malformed"
    STOP_WITHOUT_START = "stop_without_start"
    START_WITHOUT_STOP = "start_without_stop"
    NEGATIVE_TIME = "negative_time"
    REVERSED_INTERVAL = "reversed_interval"
    EMPTY_INTERVAL = "empty_interval"
    LONGER_THAN_A_DAY = "longer_than_a_day"
    QUANTITY_NOT_POSITIVE = "quantity_not_positive"
    OUT_OF_RANGE = "out_of_range"
    UNKNOWN_CLASS = "unknown_class"
    WRONG_PARTITION = "wrong_partition"
    UNKNOWN_TEAM = "unknown_team"
    UNKNOWN_POOL = "unknown_pool"
    UNKNOWN_MARKET = "unknown_market"
    FUTURE_TIME = "future_time"
    REJECTED_LATE = "rejected_late"
    OTHER_BODY = "other_body"
    CLOCK_JUMP = "clock_jump"
    OVERLAP = "overlap"
    NEVER_PRICED = "never_priced"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a record is not charged; the reason names the field and the rule."""

    code: UsageFault
    reason: str


def interval_fault(start_ms: int | None, end_ms: int | None) -> Fault | None:
    """Return what is wrong with an interval; None: nothing."""
    if start_ms is None:
        return Fault(UsageFault.STOP_WITHOUT_START, "start_ms is not there")
    if end_ms is None:
        return Fault(UsageFault.START_WITHOUT_STOP, "end_ms is not there")
    rules = (
        (min(start_ms, end_ms) < 0, UsageFault.NEGATIVE_TIME, "start_ms or end_ms is below 0"),
        (end_ms < start_ms, UsageFault.REVERSED_INTERVAL, "end_ms is before start_ms"),
        (end_ms == start_ms, UsageFault.EMPTY_INTERVAL, "end_ms is start_ms"),
        (end_ms - start_ms > DAY_MS, UsageFault.LONGER_THAN_A_DAY, f"it has more than {DAY_MS} ms"),
        (
            end_ms > MARKET_TIME_MS_MAX,
            UsageFault.OUT_OF_RANGE,
            f"end_ms is above {MARKET_TIME_MS_MAX}",
        ),
    )
    return next((Fault(code, reason) for broken, code, reason in rules if broken), None)


def amounts_fault(
    quantity_macc: int, seq: int, limit_micro: int | None, tariff_ppm: int, length_ms: int
) -> Fault | None:
    """Return what is wrong with the amounts of a record; None: nothing.

    ``length_ms`` is that of its interval, or 0 where that cannot be read.
    """
    if quantity_macc < 1:
        return Fault(UsageFault.QUANTITY_NOT_POSITIVE, "quantity_macc must be 1 or more")
    for name, value, most in (
        ("quantity_macc", quantity_macc, MACC_MAX),
        ("seq", seq, NUMBER_MAX),
        ("limit_micro", limit_micro or 0, LIMIT_MICRO_MAX),
        ("tariff_ppm", tariff_ppm, 1000 * PPM),
        ("tariff_ppm × quantity_macc × ms", tariff_ppm * quantity_macc * length_ms, WEIGHT_MAX),
    ):
        if not 0 <= value <= most:
            return Fault(UsageFault.OUT_OF_RANGE, f"{name} must be 0 to {most}")
    return None


def time_fault(
    span_ms: tuple[int, int], now_ms: int, earliest_ms: int, future_tolerance_ms: int
) -> Fault | None:
    """Return what is wrong with an interval at a step's market time; None: nothing.

    What begins before ``earliest_ms`` could overlap use that is forgotten, and be charged again.
    """
    start_ms, end_ms = span_ms
    if end_ms > now_ms + future_tolerance_ms:
        return Fault(
            UsageFault.FUTURE_TIME,
            f"end_ms is more than {future_tolerance_ms} ms beyond the barrier at {now_ms}",
        )
    if start_ms < earliest_ms:
        return Fault(
            UsageFault.REJECTED_LATE,
            f"start_ms is before {earliest_ms}, how far the barrier at {now_ms} looks back",
        )
    return None
