"""A half-open window of market time, and how people write its ends."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from walras_contracts.quantities import MARKET_TIME_MS_MAX

SECOND_MS: Final = 1000
_MILLISECONDS = re.compile(r"[0-9]{1,13}")


@dataclass(frozen=True, slots=True)
class Window:
    """``[from_ms, to_ms)``; None: open on that side."""

    from_ms: int | None = None
    to_ms: int | None = None

    def clip(self, start_ms: int, end_ms: int) -> tuple[int, int]:
        """Return the part of an interval that lies in the window; empty: its end is its start."""
        if self.from_ms is not None:
            start_ms = max(start_ms, self.from_ms)
        if self.to_ms is not None:
            end_ms = min(end_ms, self.to_ms)
        return start_ms, max(start_ms, end_ms)

    def touches(self, start_ms: int, end_ms: int) -> bool:
        """Whether a part of an interval lies in the window."""
        start_ms, end_ms = self.clip(start_ms, end_ms)
        return end_ms > start_ms

    def words(self) -> str:
        """Return it for people."""
        ends = [moment(ms) for ms in (self.from_ms, self.to_ms) if ms is not None]
        if len(ends) == 2:
            return f"{ends[0]} to {ends[1]}"
        if not ends:
            return "all of the log"
        return f"from {ends[0]}" if self.from_ms is not None else f"until {ends[0]}"


def market_time_ms(text: str) -> int:
    """Read a market time: milliseconds since the epoch, or ISO 8601 (UTC unless it says else).

    Raises
    ------
    ValueError
        It is neither, has parts of a millisecond, or is out of the range of market time.
    """
    if _MILLISECONDS.fullmatch(text):
        value = int(text)
    else:
        try:
            at = datetime.fromisoformat(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is neither milliseconds nor a date and time") from error
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        since = at - datetime(1970, 1, 1, tzinfo=UTC)
        if since.microseconds % 1000:
            raise ValueError(f"{text!r} is not a whole number of milliseconds")
        value = (since.days * 86_400 + since.seconds) * SECOND_MS + since.microseconds // 1000
    if not 0 <= value <= MARKET_TIME_MS_MAX:
        raise ValueError(f"{text!r} is not from 1970 to 2100")
    return value


def moment(time_ms: int) -> str:
    """Return a market time as UTC, to the second or, where it has parts, to the millisecond."""
    whole, parts_ms = divmod(time_ms, SECOND_MS)
    text = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{parts_ms:03d}Z" if parts_ms else f"{text}Z"
