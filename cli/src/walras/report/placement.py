"""What placement made of the quotas: wasted quota, jobs without devices, by market, cell and shape.

A figure of `placement.figures` holds from its cycle until the next one of its market, at most to
the end of the window; what is counted in it happened since the one before.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from walras.report.records import LogRecord
from walras.report.series import Bins, ratio_ppm

LEVELS = (
    *("usable_macc", "held_macc", "remnant_macc", "reserved_macc", "bought_macc"),
    *("unspent_macc", "opportunistic_macc", "unplaced_macc"),
    *("pending_jobs", "parked_jobs", "held_back_jobs", "unplaced_jobs", "gangs_waiting"),
)
"""They are reported multiplied by the time that they held, under their name with ``_ms``."""
COUNTS = (
    *("started_jobs", "started_wait_ms", "vacated_jobs", "kept_jobs", "deadline_misses"),
    "preemption_cycles_detected",
)


@dataclass(slots=True)
class Shape:
    """Jobs with quota and without devices, of one size or in one cell."""

    cycles: int = 0
    job_ms: int = 0
    macc_ms: int = 0
    longest_wait_ms: int = 0

    def add(self, found: Mapping[str, Any], held_ms: int) -> None:
        """Take such jobs as they stood in a cycle that held for a time; it is counted apart."""
        self.job_ms += found["jobs"] * held_ms
        self.macc_ms += found["needed_macc"] * held_ms
        self.longest_wait_ms = max(self.longest_wait_ms, found["longest_wait_ms"])

    def report(self) -> dict[str, int]:
        """Return it as a part of the report."""
        return {
            "cycles": self.cycles,
            "job_ms": self.job_ms,
            "macc_ms": self.macc_ms,
            "longest_wait_ms": self.longest_wait_ms,
        }


@dataclass(slots=True)
class MarketPlacement:
    """One market over the window."""

    roundings: list[str] = field(default_factory=list)
    cycles: int = 0
    cycles_unplaced: int = 0
    held: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LEVELS, 0))
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    short_macc_ms: int = 0
    unlisted_macc_ms: int = 0
    gang_wait_most_ms: int = 0
    cells: dict[str, Shape] = field(default_factory=dict)
    geometries: dict[tuple[str, int], Shape] = field(default_factory=dict)
    stuck: dict[str, list[int]] = field(default_factory=dict)
    """Cycles × teams, and macc·ms unspent, of stuck heads by their reason."""

    def take(self, body: Mapping[str, Any], held_ms: int) -> None:
        """Take the figures of a cycle that held for so long inside the window."""
        if body["rounding"] not in self.roundings:
            self.roundings.append(body["rounding"])
        self.cycles += 1
        self.cycles_unplaced += body["unplaced_jobs"] > 0
        for name in LEVELS:
            self.held[name] += body[name] * held_ms
        self.short_macc_ms += min(body["unspent_macc"], body["unplaced_macc"]) * held_ms
        self.gang_wait_most_ms = max(self.gang_wait_most_ms, body["gang_wait_ms"])
        listed_macc = sum(found["needed_macc"] for found in body["unplaced"])
        self.unlisted_macc_ms += (body["unplaced_macc"] - listed_macc) * held_ms
        for found in body["unplaced"]:
            self.cells.setdefault(found["cell"], Shape()).add(found, held_ms)
            geometry = self.geometries.setdefault((found["cell"], found["devices"]), Shape())
            geometry.add(found, held_ms)
            geometry.cycles += 1
        for cell in {found["cell"]: None for found in body["unplaced"]}:
            self.cells[cell].cycles += 1
        for head in body["stuck"]:
            amounts = self.stuck.setdefault(head["reason"], [0, 0])
            amounts[0] += 1
            amounts[1] += head["unspent_macc"] * held_ms

    def report(self) -> dict[str, Any]:
        """Return the market's part of the report."""
        unspent = self.held["unspent_macc"]
        return {
            "rounding": ", ".join(self.roundings),
            "cycles": self.cycles,
            "cycles_with_unplaced_jobs": self.cycles_unplaced,
            **{f"{name}_ms": amount for name, amount in self.held.items()},
            **self.counts,
            "unspent_share_ppm": ratio_ppm(unspent, self.held["bought_macc"]),
            "unspent_why": {
                "short_of_devices_macc_ms": self.short_macc_ms,
                "no_fitting_job_macc_ms": unspent - self.short_macc_ms,
            },
            "gang_wait_most_ms": self.gang_wait_most_ms,
            "unplaced_by_cell": [
                {"cell": cell, **shape.report()} for cell, shape in sorted(self.cells.items())
            ],
            "unplaced_by_geometry": [
                {"cell": cell, "devices": devices, **shape.report()}
                for (cell, devices), shape in sorted(self.geometries.items())
            ],
            "unplaced_unlisted_macc_ms": self.unlisted_macc_ms,
            "stuck_heads": {
                reason: {"cycles": amounts[0], "unspent_macc_ms": amounts[1]}
                for reason, amounts in sorted(self.stuck.items())
            },
        }


@dataclass(slots=True)
class PlacementBook:
    """Folds ``placement.figures``."""

    bins: Bins
    markets: dict[str, MarketPlacement] = field(default_factory=dict)
    _open: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last figures of each market: they hold until the next ones."""

    def fold(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``placement.figures``."""
        for record in records:
            body = record.body()
            counts = self.markets.setdefault(body["market"], MarketPlacement()).counts
            for name in COUNTS:
                counts[name] += body[name]
            before = self._open.get(body["market"])
            if before is not None:
                self._close(before, body["market_time_ms"])
            self._open[body["market"]] = body

    def _close(self, body: Mapping[str, Any], until_ms: int) -> None:
        from_ms = body["market_time_ms"]
        if from_ms >= self.bins.end_ms:
            return
        held_ms = max(0, min(until_ms, self.bins.end_ms) - max(from_ms, self.bins.start_ms))
        self.markets[body["market"]].take(body, held_ms)

    def report(self) -> dict[str, Any]:
        """Return the figures of each market and of all of them; call it once, at the end."""
        for body in self._open.values():
            self._close(body, self.bins.end_ms)
        self._open.clear()
        markets = {name: market.report() for name, market in sorted(self.markets.items())}
        return {"total": _total(self.markets.values()), "markets": markets}


def _total(markets: Iterable[MarketPlacement]) -> dict[str, Any]:
    """Return sums over all markets, and the longest wait of a gang."""
    found = list(markets)
    held = {name: sum(market.held[name] for market in found) for name in LEVELS}
    short = sum(market.short_macc_ms for market in found)
    return {
        "market_cycles": sum(market.cycles for market in found),
        "market_cycles_with_unplaced_jobs": sum(market.cycles_unplaced for market in found),
        **{f"{name}_ms": amount for name, amount in held.items()},
        **{name: sum(market.counts[name] for market in found) for name in COUNTS},
        "unspent_share_ppm": ratio_ppm(held["unspent_macc"], held["bought_macc"]),
        "unspent_why": {
            "short_of_devices_macc_ms": short,
            "no_fitting_job_macc_ms": held["unspent_macc"] - short,
        },
        "gang_wait_most_ms": max((market.gang_wait_most_ms for market in found), default=0),
    }
