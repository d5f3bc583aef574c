"""What a team spends in the hour, day and month of the calendar that are running.

Spending counts by the time of use, corrections included; credits are goodwill and do not count.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from walras_contracts.accounts import BillingPeriod
from walras_contracts.calendar_periods import period_of

KINDS: Final = (BillingPeriod.HOUR, BillingPeriod.DAY, BillingPeriod.MONTH)
Window = tuple[int, int]
"""A half-open interval of market time, ms."""


class Calendar:
    """The windows of each kind that are running at the time of a step, by zone."""

    def __init__(self) -> None:
        self._now_ms = 0
        self._windows: dict[str, tuple[Window, ...]] = {}
        self._until_ms = 0

    def move(self, now_ms: int) -> bool:
        """Go on to a market time; return whether other windows are running now."""
        self._now_ms = now_ms
        if now_ms < self._until_ms:
            return False
        changed = bool(self._windows)
        self._windows.clear()
        self._until_ms = 2**62
        return changed

    def windows(self, zone: str) -> tuple[Window, ...]:
        """Return the running windows of a zone, in the order of :data:`KINDS`."""
        found = self._windows.get(zone)
        if found is None:
            found = tuple(period_of(kind, zone, self._now_ms) for kind in KINDS)
            self._windows[zone] = found
            self._until_ms = min(self._until_ms, *(end_ms for _, end_ms in found))
        return found


@dataclass(slots=True)
class Spending:
    """Exact spending of one team in one window of each kind, and the alerts given in it.

    ``windows`` and ``numerators`` are in the order of :data:`KINDS`; before the first use there
    are none. ``alerted`` names kind and threshold.
    """

    windows: tuple[Window, ...] = ()
    numerators: list[int] = field(default_factory=list)
    alerted: list[tuple[int, int]] = field(default_factory=list)

    def roll(self, running: tuple[Window, ...]) -> bool:
        """Turn to the windows that are running; return whether anything changed.

        A window that is over leaves nothing behind. Where only its borders are others than they
        were, because the pool of the team has another zone, what was counted goes on.
        """
        before, self.windows = self.windows, running
        if before == running:
            return False
        if not before:
            self.numerators = [0] * len(KINDS)
            return True
        for index, (held, window) in enumerate(zip(before, running, strict=True)):
            if held[1] <= window[0]:
                self.numerators[index] = 0
                self.alerted = [alert for alert in self.alerted if alert[0] != index]
        return True

    def add(self, start_ms: int, end_ms: int, numerator: int) -> None:
        """Count what use over [start, end) costs, or costs more than before.

        Amounts are linear in time, so the part that lies in a window is exact.
        """
        for index, (begin_ms, finish_ms) in enumerate(self.windows):
            if begin_ms <= start_ms and end_ms <= finish_ms:
                self.numerators[index] += numerator
            else:
                inside_ms = min(end_ms, finish_ms) - max(start_ms, begin_ms)
                if inside_ms > 0:
                    self.numerators[index] += numerator * inside_ms // (end_ms - start_ms)

    def text(self) -> str:
        """Return it as a JSON array of plain numbers."""
        numerators = ",".join(map(str, self.numerators))
        alerted = _pairs(self.alerted) if self.alerted else ""
        return f"[[{_windows(self.windows)}],[{numerators}],[{alerted}]]"

    @staticmethod
    def parse(fields: list[Any]) -> "Spending":
        """Read what :meth:`text` returned."""
        windows, numerators, alerted = fields
        return Spending(
            tuple([(start_ms, end_ms) for start_ms, end_ms in windows]),
            numerators,
            [(kind, threshold) for kind, threshold in alerted],
        )


def _pairs(pairs: Iterable[tuple[int, int]]) -> str:
    return ",".join([f"[{first},{second}]" for first, second in pairs])


_windows = lru_cache(1 << 10)(_pairs)
"""The teams of a zone have the same windows."""
