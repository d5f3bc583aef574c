"""Time bins and percentiles, in integers."""

from collections.abc import Sequence
from dataclasses import dataclass

MINUTE_MS = 60_000
BINS_MAX = 240
_WIDTHS_MIN = (1, 2, 5, 10, 15, 30, 60, 120, 240, 720, 1440)
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Bins:
    """Equal bins of market time from ``start_ms``; the last one may reach beyond ``end_ms``."""

    start_ms: int
    end_ms: int
    width_ms: int

    @staticmethod
    def over(start_ms: int, end_ms: int) -> "Bins":
        """Return bins of a round width, at most 240 of them where a day is wide enough."""
        length_ms = max(1, end_ms - start_ms)
        for minutes in _WIDTHS_MIN:
            if -(-length_ms // (minutes * MINUTE_MS)) <= BINS_MAX:
                return Bins(start_ms, end_ms, minutes * MINUTE_MS)
        return Bins(start_ms, end_ms, _WIDTHS_MIN[-1] * MINUTE_MS)

    @property
    def count(self) -> int:
        """Number of bins."""
        return max(1, -(-(self.end_ms - self.start_ms) // self.width_ms))

    def index(self, time_ms: int) -> int:
        """Return the bin of a time; times outside fall into the first or last bin."""
        return min(max((time_ms - self.start_ms) // self.width_ms, 0), self.count - 1)

    def starts(self) -> list[int]:
        """Return the start of each bin."""
        return [self.start_ms + i * self.width_ms for i in range(self.count)]

    def length_ms(self, index: int) -> int:
        """Return the length of a bin inside the window."""
        start_ms = self.start_ms + index * self.width_ms
        return min(self.width_ms, self.end_ms - start_ms)

    def add(self, amounts: list[int], start_ms: int, end_ms: int, rate: int) -> int:
        """Add ``rate`` × time of [start_ms, end_ms) to the bins it crosses; return what was added.

        What lies outside the window is left out.
        """
        if start_ms < self.start_ms or end_ms > self.end_ms:
            start_ms, end_ms = max(start_ms, self.start_ms), min(end_ms, self.end_ms)
        if end_ms <= start_ms:
            return 0
        width_ms = self.width_ms
        index, inside_ms = divmod(start_ms - self.start_ms, width_ms)
        amount = rate * (end_ms - start_ms)
        if inside_ms + end_ms - start_ms <= width_ms:
            amounts[index] += amount
            return amount
        at_ms = start_ms
        while at_ms < end_ms:
            until_ms = min(end_ms, self.start_ms + (index + 1) * width_ms)
            amounts[index] += rate * (until_ms - at_ms)
            at_ms = until_ms
            index += 1
        return amount


def nearest_rank(ordered: Sequence[int], percent: int) -> int | None:
    """Return the nearest-rank percentile of an ascending sequence; None when it is empty."""
    if not ordered:
        return None
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(rank, 1) - 1]


def percentiles(values: Sequence[int]) -> dict[str, int | None]:
    """Return p50, p90, p99 (nearest rank) and the maximum."""
    ordered = sorted(values)
    found = {f"p{percent}": nearest_rank(ordered, percent) for percent in PERCENTILES}
    return {**found, "max": ordered[-1] if ordered else None}


def ratio_ppm(part: int, whole: int) -> int | None:
    """Return part / whole in parts per million, rounded down; None where whole is 0."""
    return part * 1_000_000 // whole if whole else None
