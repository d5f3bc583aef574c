"""Numbers as people read them: credits, accelerators, durations, percentages."""

from datetime import UTC, datetime

MICRO = 1_000_000
MACC_MS_PER_ACCELERATOR_SECOND = 1_000_000
MACC_MS_PER_ACCELERATOR_HOUR = 3_600 * MACC_MS_PER_ACCELERATOR_SECOND
NONE = "–"


def credits_of(micro: int | None, digits: int = 2) -> str:
    """Return credits of µcr."""
    return NONE if micro is None else f"{micro / MICRO:,.{digits}f}"


def percent(ppm: int | None, digits: int = 1) -> str:
    """Return a percentage of parts per million."""
    return NONE if ppm is None else f"{ppm / 10_000:.{digits}f} %"


def ratio(ppm: int | None) -> str:
    """Return a ratio of parts per million."""
    return NONE if ppm is None else f"{ppm / MICRO:.2f}"


def count(value: int | None) -> str:
    """Return a whole number with separators."""
    return NONE if value is None else f"{value:,}"


def duration(time_ms: int | None) -> str:
    """Return a duration in the two units that matter."""
    if time_ms is None:
        return NONE
    seconds = time_ms // 1000
    if seconds < 60:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def seconds(time_ms: int | None) -> str:
    """Return whole seconds, rounded down."""
    return NONE if time_ms is None else f"{time_ms // 1000:,} s"


def moment(time_ms: int | None) -> str:
    """Return a market time as a date and time in UTC."""
    if time_ms is None:
        return NONE
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def accelerator_hours(macc_ms: int, digits: int = 0) -> str:
    """Return accelerator-hours of macc·ms."""
    return f"{macc_ms / MACC_MS_PER_ACCELERATOR_HOUR:,.{digits}f}"


def accelerator_seconds(macc_ms: int) -> str:
    """Return whole accelerator-seconds of macc·ms, rounded down."""
    return f"{macc_ms // MACC_MS_PER_ACCELERATOR_SECOND:,}"
