"""Times of an invoice in the zone of its pool."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from walras_contracts.accounts import BillingPeriod

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
"""Not of the machine's locale: a page must not depend on who prints it."""


def local(zone: str, time_ms: int) -> datetime:
    """Return a market time as the clocks of a zone show it."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).astimezone(ZoneInfo(zone))


def local_text(zone: str, time_ms: int) -> str:
    """Return a market time with the offset of the zone from UTC."""
    at = local(zone, time_ms)
    offset = at.strftime("%z")
    return f"{at:%Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:5]}"


def period_name(kind: BillingPeriod, zone: str, start_ms: int) -> str:
    """Return the name of the hour, day or month that starts then."""
    at = local(zone, start_ms)
    if kind is BillingPeriod.MONTH:
        return f"{MONTHS[at.month - 1]} {at.year}"
    if kind is BillingPeriod.DAY:
        return f"{at:%Y-%m-%d}"
    # The offset tells the two hours apart that a zone lives twice.
    return f"{at:%Y-%m-%d %H:%M %z}"


def period_file_name(kind: BillingPeriod, zone: str, start_ms: int) -> str:
    """Return the name of a period as part of a file's name."""
    at = local(zone, start_ms)
    if kind is BillingPeriod.MONTH:
        return f"{at:%Y-%m}"
    return f"{at:%Y-%m-%d}" if kind is BillingPeriod.DAY else f"{at:%Y-%m-%dT%H%M%z}"
