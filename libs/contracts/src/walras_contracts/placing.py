"""What placement makes of the quotas of a cycle: where whole jobs and divisible quota disagree."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_contracts.accounts import Rounding
from walras_contracts.event import Event, Part
from walras_contracts.identifiers import Id, JobKey, Text
from walras_contracts.quantities import Count, DurationMs, Macc, MarketTimeMs, Number

CELLS_MAX = 16
UNPLACED_MAX = 24
STUCK_MAX = 64
STUCK_AFTER_CYCLES = 10
"""A first job of a queue that waits so long is stuck (design §5)."""
STUCK_TEAMS_OF_A_POOL = 3
"""So many teams of a pool may have their demand cut in a cycle (design §5)."""
CYCLES_MAX = 8


class CellRoom(Part):
    """What is free of a type in one cell."""

    cell: Id
    open_macc: Macc
    """Free, and not reserved for a job."""
    largest_macc: Macc
    """The largest gang that it would hold: on one node or in one topology domain."""


class UnplacedQuota(Part):
    """Jobs of one shape that have the quota to run and find no devices.

    Each is counted once, in the cell that has the most free devices.
    """

    cell: Id
    devices: Count
    """Of each job."""
    jobs: Count
    needed_macc: Macc
    """Of all of them."""
    longest_wait_ms: DurationMs


class StuckHead(Part):
    """The first pending job of a team's queue that could use a market, once it has waited long.

    What its team may do with the quota that this job cannot use is clearing's to say.
    """

    pool: Id
    team: Id
    job: Id
    reason: Text
    needed_macc: Macc
    allocated_macc: Macc
    """What its team bought in the market."""
    unspent_macc: Macc
    """What of that its team does not occupy."""
    pending_since_ms: MarketTimeMs
    waited_cycles: Count
    """For how many cycles it has been pending."""
    has_turn: bool
    """Smaller jobs behind it could overtake it for ever: it is time that none does."""


class PreemptionCycle(Part):
    """Two jobs that took each other's devices again and again; the first one has to wait."""

    evicted: JobKey
    by: JobKey


class PlacementMeasured(Event):
    """One market in one cycle as placement left it, with what happened since the cycle before.

    Lists hold the largest, or those that wait longest, where there are too many.
    """

    TYPE: ClassVar[str] = "walras.placement.measured.v1"
    TOPIC: ClassVar[str] = "placement.figures"

    market: Id
    cycle: Number
    market_time_ms: MarketTimeMs
    rounding: Annotated[Rounding, Field(strict=False)]
    usable_macc: Macc
    """Devices that may be given to jobs, whoever holds them."""
    held_macc: Macc
    """Held by jobs, wherever the devices are and whatever state they are in."""
    remnant_macc: Macc
    """Held by what is left of leases whose jobs do not use them any more."""
    reserved_macc: Macc
    """Free, but reserved for jobs that wait for more."""
    bought_macc: Macc
    """Quota that teams bought."""
    unspent_macc: Macc
    """Quota that teams bought and do not occupy."""
    opportunistic_macc: Macc
    """Occupied by what runs for nothing."""
    pending_jobs: Count
    """Jobs that wait and would take the market first."""
    parked_jobs: Count
    held_back_jobs: Count
    """Evicted not long ago; they wait before they may start again."""
    cells: Annotated[tuple[CellRoom, ...], Field(max_length=CELLS_MAX, strict=False)]
    unplaced: Annotated[tuple[UnplacedQuota, ...], Field(max_length=UNPLACED_MAX, strict=False)]
    unplaced_jobs: Count
    unplaced_macc: Macc
    gangs_waiting: Count
    """Of the unplaced jobs, those that need more than one device."""
    gang_wait_ms: DurationMs
    """How long the one of them has been pending that waits longest."""
    started_jobs: Count
    started_wait_ms: DurationMs
    """How long they were pending before, together."""
    vacated_jobs: Count
    kept_jobs: Count
    """Asked to leave, and allowed to stay after all."""
    deadline_misses: Count
    """Jobs that were not finished by their deadline."""
    preemption_cycles: Annotated[
        tuple[PreemptionCycle, ...], Field(max_length=CYCLES_MAX, strict=False)
    ]
    preemption_cycles_detected: Count
    stuck: Annotated[tuple[StuckHead, ...], Field(max_length=STUCK_MAX, strict=False)]
    """With rounding ``release``: whose demand may be cut, youngest first."""

    def record_key(self) -> str:
        """Key: market and cycle."""
        return f"{self.market}/{self.cycle}"

    def partition_key(self) -> str:
        """By market."""
        return self.market
