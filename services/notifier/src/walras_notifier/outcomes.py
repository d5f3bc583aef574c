"""What came of an attempt, from what the receiver answered."""

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

RETRIED_STATUSES: Final = frozenset({408, 425, 429})
"""Of those that blame the request, the ones that may go away by themselves."""
RETRY_AFTER_MAX_MS: Final = 3_600_000
"""What a receiver asks for beyond it is taken for a mistake."""
SMTP_PERMANENT: Final = range(500, 600)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver has it."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It may go well another time.

    ``why`` is for the log: it names no address. ``retry_after_ms``: the receiver asks for so much
    peace.
    """

    why: str
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The receiver will not take it, however often it is tried."""

    why: str


Outcome = Delivered | Failed | Refused


def of_status(status: int, retry_after: str | None, now_s: int) -> Outcome:
    """Judge the answer of a webhook.

    Parameters
    ----------
    status
        HTTP status.
    retry_after
        The header, as it came.
    now_s
        Wall clock, seconds since the epoch: the header may name a date.
    """
    if 200 <= status < 300:
        return Delivered()
    why = f"status {status}"
    if status >= 500 or status in RETRIED_STATUSES:
        return Failed(why, retry_after_ms(retry_after, now_s))
    return Refused(why)


def retry_after_ms(value: str | None, now_s: int) -> int | None:
    """Return the wait that a ``Retry-After`` asks for; None where it is missing or senseless."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:9]) * 1000, RETRY_AFTER_MAX_MS)
    try:
        at_s = int(parsedate_to_datetime(text).timestamp())
    except (ValueError, OverflowError):
        return None
    return min(max(0, at_s - now_s) * 1000, RETRY_AFTER_MAX_MS)


def of_recipient(code: int) -> Outcome:
    """Judge what a mail server said of the recipient or of the message."""
    why = f"smtp {code}"
    return Refused(why) if code in SMTP_PERMANENT else Failed(why)
