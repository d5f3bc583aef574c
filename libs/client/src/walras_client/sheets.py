"""What a source can know of quotas: sheets, each with its place in the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Quota:
    """What one team may occupy in one market, milli-accelerators."""

    allocated_macc: int
    """Bought, or own at the pool's price; or contracted, on the floor."""
    opportunistic_macc: int = 0
    """Leftovers at price 0, first to leave."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which log a sheet stands, and when that was published.

    Parameters
    ----------
    log_id
        The log; epochs and barriers of different logs cannot be compared.
    epoch
        Highest epoch that wrote the barrier.
    cycle
        Last cycle known of at the barrier.
    barrier
        The barrier that the sheet shows.
    published_at_ms
        Broker timestamp of that barrier, ms since the epoch.
    """

    log_id: str
    epoch: int
    cycle: int
    barrier: int
    published_at_ms: int

    def order(self) -> tuple[int, int]:
        """Return what makes one place of a log newer than another."""
        return (self.epoch, self.barrier)


@dataclass(frozen=True, slots=True)
class QuotaSheet:
    """Quotas by team and market, and the supply by market (macc) known with them."""

    place: Place
    teams: Mapping[str, Mapping[str, Quota]]
    supply: Mapping[str, int]
    granted_in: Mapping[str, int] = field(default_factory=dict)
    """Cycle in which each team's quota was written."""


@dataclass(frozen=True, slots=True)
class FloorSheet:
    """What is contracted, by team and market, macc."""

    place: Place
    teams: Mapping[str, Mapping[str, int]]
