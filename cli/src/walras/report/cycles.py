"""Which cycles were decided, and what their summaries say."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from walras.report.records import LogRecord
from walras.report.series import Bins
from walras_contracts.market import CycleRecorded, CycleSummarised

_RELEASED = b'"released":[{'
"""In a cycle record in which the demand of some team was cut."""


@dataclass(slots=True)
class CycleBook:
    """Cycle numbers by market; demand as the market saw it, by bin."""

    recorded: dict[str, Counter[int]] = field(default_factory=dict)
    states: dict[str, Counter[str]] = field(default_factory=dict)
    demand: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """(market time, demand in macc) of each summary."""
    released: dict[str, Counter[str]] = field(default_factory=dict)
    """How often a team's demand was cut (rounding ``release``), by what was left of it."""
    last_time_ms: int | None = None

    def fold(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``cycles``; the big ones are read only where demand was cut."""
        for record in records:
            if record.type == CycleRecorded.TYPE:
                market, _, number = record.key.rpartition("/")
                self.recorded.setdefault(market, Counter())[int(number)] += 1
                if _RELEASED in (record.value or b""):
                    extents = (cut["extent"] for cut in record.body()["released"])
                    self.released.setdefault(market, Counter()).update(extents)
            elif record.type == CycleSummarised.TYPE:
                body = record.body()
                market, time_ms = body["market"], body["market_time_ms"]
                self.states.setdefault(market, Counter())[body["state"]] += 1
                self.demand.setdefault(market, []).append((time_ms, body["demand_macc"]))
                if self.last_time_ms is None or time_ms > self.last_time_ms:
                    self.last_time_ms = time_ms

    def report(self) -> dict[str, Any]:
        """Return counts, density and states per market.

        A market's cycles are dense when no number between its first and last is missing and none
        occurs twice.
        """
        markets: dict[str, Any] = {}
        for market, numbers in sorted(self.recorded.items()):
            first, last = min(numbers), max(numbers)
            markets[market] = {
                "count": len(numbers),
                "first": first,
                "last": last,
                "missing": last - first + 1 - len(numbers),
                "doubled": sum(1 for count in numbers.values() if count > 1),
                "released": dict(sorted(self.released.get(market, Counter()).items())),
                "states": dict(sorted(self.states.get(market, Counter()).items())),
            }
        return {
            "count": max((m["count"] for m in markets.values()), default=0),
            "dense": bool(markets)
            and all(not m["missing"] and not m["doubled"] for m in markets.values()),
            "markets": markets,
        }

    def demand_macc(self, market: str, bins: Bins) -> list[int | None]:
        """Return the mean demand of the cycles in each bin."""
        sums = [0] * bins.count
        counts = [0] * bins.count
        for time_ms, demand_macc in self.demand.get(market, []):
            index = bins.index(time_ms)
            sums[index] += demand_macc
            counts[index] += 1
        return [s // c if c else None for s, c in zip(sums, counts, strict=True)]
