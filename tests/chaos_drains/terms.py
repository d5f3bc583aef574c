"""What a run fixes: the size of the fleet, and times of drains, heartbeats and barriers."""

from dataclasses import dataclass
from typing import Final

from walras_contracts.accounts import DrainTerms
from walras_contracts.drains import SessionState
from walras_contracts.work import JobState

MARKET: Final = "sim"
POOL: Final = "unit"
TEAMS: Final = ("alder", "birch", "cedar", "dogwood")
NODES: Final = ("n1", "n2", "n3")
DEVICES: Final = 4
"""Of each node."""
DEVICE_MACC: Final = 1_000
SUPPLY: Final = len(NODES) * DEVICES
HOLDS: Final = frozenset({JobState.RUNNING, JobState.DRAINING})
"""States of a job that holds a lease."""
ENDED: Final = frozenset({SessionState.FREED, SessionState.FAILED, SessionState.CANCELLED})
"""States of a drain that is over."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times of a run, in ms; a cycle is cleared at every barrier."""

    interval_ms: int = 500
    heartbeat_ms: int = 500
    orphan_ms: int = 3_000
    lease_timeout_ms: int = 6_000

    def drain_terms(self) -> DrainTerms:
        """Return the platform's terms: drains of one to three seconds, hardly held up."""
        return DrainTerms(
            warning_ms=800,
            terminate_ms=500,
            verify_ms=1_500,
            billing_grace_ms=200,
            maximum_delay_ms=1_000,
            disruption_ppm=1_000_000,
            disruption_window_ms=1_000,
            minimum_distance_ms=1_000,
            lease_timeout_ms=self.lease_timeout_ms,
        )


USUAL: Final = Times()
