"""Why usage is not charged: coded, in order of precedence."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from walras_contracts.quantities import (
    LIMIT_MICRO_MAX,
    MACC_MAX,
    MARKET_TIME_MS_MAX,
    NUMBER_MAX,
    PPM,
)

DAY_MS: Final = 86_400_000
"""The longest usage interval that can be right; sources cut every 60 s."""


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
    UNKNOWN_CLASS = "unknown_class"
    OUT_OF_RANGE = "out_of_range"
    FUTURE_TIME = "future_time"
    REJECTED_LATE = "rejected_late"
    UNKNOWN_TEAM = "unknown_team"
    UNKNOWN_MARKET = "unknown_market"
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
    quantity_macc: int, seq: int, limit_micro: int | None, tariff_ppm: int
) -> Fault | None:
    """Return what is wrong with the amounts of a record; None: nothing."""
    if quantity_macc < 1:
        return Fault(UsageFault.QUANTITY_NOT_POSITIVE, "quantity_macc must be 1 or more")
    for name, value, most in (
        ("quantity_macc", quantity_macc, MACC_MAX),
        ("seq", seq, NUMBER_MAX),
        ("limit_micro", limit_micro or 0, LIMIT_MICRO_MAX),
        ("tariff_ppm", tariff_ppm, 1000 * PPM),
    ):
        if not 0 <= value <= most:
            return Fault(UsageFault.OUT_OF_RANGE, f"{name} must be 0 to {most}")
    return None


def time_fault(
    end_ms: int, now_ms: int, look_back_ms: int, future_tolerance_ms: int
) -> Fault | None:
    """Return what is wrong with an end at a step's market time; None: nothing."""
    if end_ms > now_ms + future_tolerance_ms:
        return Fault(
            UsageFault.FUTURE_TIME,
            f"end_ms is more than {future_tolerance_ms} ms beyond the barrier at {now_ms}",
        )
    if end_ms <= now_ms - look_back_ms:
        return Fault(
            UsageFault.REJECTED_LATE,
            f"end_ms is {look_back_ms} ms or more before the barrier at {now_ms}",
        )
    return None
