"""Why a pending job waits, and in which states no job waits any more.

Placement writes the reason into `job.status`; clearing reads from it whether a place exists at all.
"""

from enum import StrEnum
from typing import Final

from walras_contracts.work import JobState


class WaitReason(StrEnum):
    """What a pending job is short of, over all the types that it accepts."""

    NO_SUCH_TYPE = "no_such_type"
    """No usable device of any acceptable type exists."""
    EXCEEDS_SUPPLY = "exceeds_supply"
    """It is larger than all usable devices of a type."""
    PRICE_ABOVE_LIMIT = "price_above_limit"
    WAITING_FOR_QUOTA = "waiting_for_quota"
    WAITING_FOR_DEVICES = "waiting_for_devices"
    """Its team has the quota; the devices are still held by others."""
    TOPOLOGY = "topology"
    """Enough devices are free, but not on one node or in one topology domain."""
    PARKED = "parked"
    """It failed again and again; it waits before it is tried once more, and is no demand."""
    HELD_BACK = "held_back"
    """It was evicted not long ago; it waits before it may start again, and is no demand."""
    BUDGET_EXHAUSTED = "budget_exhausted"
    """Its team may not spend any more, so it has no use for quota that costs anything."""


NO_PLACE: Final = frozenset({WaitReason.NO_SUCH_TYPE, WaitReason.EXCEEDS_SUPPLY})
"""Reasons that no quota and no waiting can remove: only other supply."""
NO_DEMAND: Final = frozenset({WaitReason.PARKED, WaitReason.HELD_BACK})
"""Reasons for which a job does not take part in the market, until placement names another one."""
ENDED_STATES: Final = frozenset({JobState.FINISHED, JobState.CANCELLED})
"""States from which a job does not return."""
