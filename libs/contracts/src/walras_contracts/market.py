"""What clearing decides: prices, quotas, cycle records."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from walras_contracts.accounts import PriceGapPolicy, Rounding
from walras_contracts.event import Event, Part
from walras_contracts.identifiers import Id, JobKey, Text
from walras_contracts.quantities import (
    Count,
    LimitMicro,
    Macc,
    MarketTimeMs,
    Micro,
    MicroPerHour,
    Number,
    NumberOrNone,
    PositiveMacc,
    Ppm,
    PriceMicro,
)
from walras_contracts.sequences import Distinct


class MarketState(StrEnum):
    """How a market stood in a cycle."""

    CLEARED = "cleared"
    HALTED = "halted"
    SKIPPED = "skipped"
    OFF = "off"


class PoolPrice(Part):
    """Price inside one pool, with the rate at which it mints."""

    pool: Id
    price_micro: PriceMicro | None
    weight_micro_per_hour: MicroPerHour
    local_income_per_hour: Annotated[int, Field(strict=True, ge=0, le=10**16)]


class PricePublished(Event):
    """Prices of one market from ``market_time_ms`` on; pools sorted by id."""

    TYPE: ClassVar[str] = "walras.price.published.v1"
    TOPIC: ClassVar[str] = "prices"

    market: Id
    cycle: Number
    market_time_ms: MarketTimeMs
    reference_price_micro: PriceMicro | None
    pools: Annotated[tuple[PoolPrice, ...], Field(strict=False), Distinct("pool", ordered=True)]

    def record_key(self) -> str:
        """Key: the market."""
        return self.market

    def partition_key(self) -> str:
        """By market."""
        return self.market


class PriceGapPublished(Event):
    """A market had no prices over ``[start_ms, end_ms)``; what use in that time costs.

    Published by the first cycle after the outage, before its prices.
    """

    TYPE: ClassVar[str] = "walras.price.gap.v1"
    TOPIC: ClassVar[str] = "prices"

    market: Id
    cycle: Number
    start_ms: MarketTimeMs
    end_ms: MarketTimeMs
    policy: Annotated[PriceGapPolicy, Field(strict=False)]

    @field_validator("end_ms")
    @classmethod
    def _interval_is_not_empty(cls, end_ms: int, info: ValidationInfo) -> int:
        if "start_ms" in info.data and end_ms <= info.data["start_ms"]:
            raise ValueError("must be later than start_ms")
        return end_ms

    def record_key(self) -> str:
        """Key: the market."""
        return self.market

    def partition_key(self) -> str:
        """By market."""
        return self.market


class MarketQuota(Part):
    """A team's quota in one market."""

    market: Id
    allocated_macc: Macc
    """Bought, or own at the pool's price."""
    opportunistic_macc: Macc
    """Leftovers at price 0, first to leave."""
    price_micro: PriceMicro | None


class QuotaGranted(Event):
    """What a team may occupy until it is told otherwise; all its markets, sorted by id.

    Written when it changes, and for every team in every 60th cycle.
    """

    TYPE: ClassVar[str] = "walras.quota.granted.v1"
    TOPIC: ClassVar[str] = "quotas"

    team: Id
    pool: Id
    cycle: Number
    market_time_ms: MarketTimeMs
    markets: Annotated[
        tuple[MarketQuota, ...], Field(strict=False), Distinct("market", ordered=True)
    ]

    def record_key(self) -> str:
        """Key: the team."""
        return self.team

    def partition_key(self) -> str:
        """By team."""
        return self.team


FRAME_JOB_COLUMNS = ("job_keys", "job_sizes_macc", "job_limits_micro")
FRAME_TEAM_COLUMNS = (
    *("teams", "team_pools", "bids_micro_per_hour", "allocated_macc", "opportunistic_macc"),
)


class FrameKind(StrEnum):
    """What the frames of a cycle hold (:class:`CycleFramed`)."""

    KEY = "key"
    """The whole market, as it entered the auction."""
    CHANGES = "changes"
    """What differs from the market's last framed cycle."""
    NONE = "none"
    """Nothing: the market was not cleared."""


class PoolCycle(Part):
    """A pool in one cycle of a market: what it had, what it pays, what it got.

    Prices are None and quantities 0 where the market was not cleared. ``price_below_micro`` is the
    pool's price at the reference price less one tick, None where nothing has to be shown.
    """

    pool: Id
    own_supply_macc: Macc
    weight_micro_per_hour: MicroPerHour
    local_income_per_hour: Annotated[int, Field(strict=True, ge=0, le=10**16)]
    price_micro: PriceMicro | None
    price_below_micro: PriceMicro | None
    purchased_macc: Macc
    allocated_macc: Macc


class ReleaseExtent(StrEnum):
    """What is left of the demand of a team whose first job cannot use its quota."""

    WHOLE_JOBS = "whole_jobs"
    """What runs, and the pending jobs that the quota can hold."""
    RUNNING = "running"
    """What runs for money: nothing overtakes the first job any more."""


class DemandReleased(Part):
    """A team whose demand was cut because the first job of its queue could not use its quota.

    With ``whole_jobs`` the others entered the auction with a limit of 0: they bought nothing, and
    what nobody buys may still hold them. With ``running`` they were not offered at all. The team's
    bid is the one that its whole demand drew.
    """

    pool: Id
    team: Id
    job: Id
    """The first job, set aside for this cycle."""
    needed_macc: Macc
    quota_macc: Macc
    """What its team would have got."""
    kept_macc: Macc
    """The demand that is left."""
    extent: Annotated[ReleaseExtent, Field(strict=False)]


class CycleRecorded(Event):
    """A cycle of one market: the digest of its input, policies, results by pool, certificate.

    Bids, jobs and quotas are in the frames of the cycle (:class:`CycleFramed`).
    """

    TYPE: ClassVar[str] = "walras.cycle.recorded.v1"
    TOPIC: ClassVar[str] = "cycles"

    market: Id
    cycle: Number
    barrier: Number
    market_time_ms: MarketTimeMs
    state: Annotated[MarketState, Field(strict=False)]
    reason: Text
    input_digest: Text
    late_inputs: Annotated[tuple[Text, ...], Field(strict=False)]
    """``topic/partition@barrier`` of the inputs that this cycle did not wait for."""
    settlement_barrier: NumberOrNone
    """Barrier of the balances in use; -1 before the first settlement."""
    shared_supply_macc: Macc
    reserve_price_micro: PriceMicro
    idle_own_supply: Text
    margin: Text
    reference_price_micro: PriceMicro | None
    pools: Annotated[tuple[PoolCycle, ...], Field(strict=False), Distinct("pool", ordered=True)]
    frame: Annotated[FrameKind, Field(strict=False)]
    """It depends on the decider's memory too: the first cycle after a restart has a key frame."""
    frames: Number
    """Parts that the frame was cut into."""
    jobs: Count
    """Jobs that took part, to check a fold of the frames against."""
    teams: Count
    """Teams that took part."""
    rounding: Annotated[Rounding, Field(strict=False)] = Rounding.BACKFILL
    """How placement spends the quotas on whole jobs."""
    released: Annotated[tuple[DemandReleased, ...], Field(strict=False)] = ()
    """With rounding ``release``, in order; the frames hold the market as it was after them."""

    @model_validator(mode="after")
    def _frame_fits_the_state(self) -> Self:
        is_cleared, is_framed = self.state is MarketState.CLEARED, self.frame is not FrameKind.NONE
        counts = (self.frames, self.jobs, self.teams)
        parts_fit = self.frames > 0 if is_framed else not any(counts)
        if is_cleared != is_framed or not parts_fit:
            raise ValueError(
                f"{self.state} with a frame of {self.frame}, with (parts, jobs, teams) {counts}"
            )
        return self

    def record_key(self) -> str:
        """Key: market and cycle."""
        return f"{self.market}/{self.cycle}"

    def partition_key(self) -> str:
        """By market."""
        return self.market


class CycleFramed(Event):
    """One part, of at most 512 KiB, of what a cleared market held and gave, as columns.

    A key frame holds every job and team that took part; a frame of changes holds those that are
    new or differ from the market's last framed cycle, and names those that left. The parts of a
    cycle are written in the transaction of its :class:`CycleRecorded`. Folding them from a key
    frame on (:mod:`walras_contracts.cycle_frames`) gives the market that was cleared, exactly.
    """

    TYPE: ClassVar[str] = "walras.cycle.framed.v1"
    TOPIC: ClassVar[str] = "cycles.frames"

    market: Id
    cycle: Number
    market_time_ms: MarketTimeMs
    kind: Literal["key", "changes"]
    part: Number
    parts: Number
    job_keys: Annotated[tuple[JobKey, ...], Field(strict=False)]
    """``team/job`` of each job; the next two columns belong to it."""
    job_sizes_macc: Annotated[tuple[PositiveMacc, ...], Field(strict=False)]
    job_limits_micro: Annotated[tuple[LimitMicro | None, ...], Field(strict=False)]
    """As they entered the auction: with what retention added for a running job."""
    removed_jobs: Annotated[tuple[JobKey, ...], Field(strict=False)]
    teams: Annotated[tuple[Id, ...], Field(strict=False)]
    """Each team; the next four columns belong to it."""
    team_pools: Annotated[tuple[Id, ...], Field(strict=False)]
    bids_micro_per_hour: Annotated[tuple[MicroPerHour, ...], Field(strict=False)]
    allocated_macc: Annotated[tuple[Macc, ...], Field(strict=False)]
    opportunistic_macc: Annotated[tuple[Macc, ...], Field(strict=False)]
    removed_teams: Annotated[tuple[Id, ...], Field(strict=False)]
    """Teams without a job here any more; their jobs are named in ``removed_jobs`` all the same."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.part >= self.parts:
            raise ValueError(f"part {self.part} of {self.parts} parts")
        for columns in (FRAME_JOB_COLUMNS, FRAME_TEAM_COLUMNS):
            lengths = [len(getattr(self, name)) for name in columns]
            if min(lengths) != max(lengths):
                raise ValueError(f"columns {', '.join(columns)} have lengths {lengths}")
        if self.kind == "key" and (self.removed_jobs or self.removed_teams):
            raise ValueError("a key frame removes nothing")
        for rows, gone in ((self.job_keys, self.removed_jobs), (self.teams, self.removed_teams)):
            if len({*rows, *gone}) < len(rows) + len(gone):
                raise ValueError("a job or a team occurs twice")
        return self

    def record_key(self) -> str:
        """Key: market, cycle and part."""
        return f"{self.market}/{self.cycle}/{self.part}"

    def partition_key(self) -> str:
        """By market."""
        return self.market


class CycleSummarised(Event):
    """A cycle of one market in at most 50 KB, for boards."""

    TYPE: ClassVar[str] = "walras.cycle.summarised.v1"
    TOPIC: ClassVar[str] = "cycles"

    market: Id
    cycle: Number
    market_time_ms: MarketTimeMs
    state: Annotated[MarketState, Field(strict=False)]
    reference_price_micro: PriceMicro | None
    pool_prices: Annotated[tuple[PoolPrice, ...], Field(strict=False)]
    supply_macc: Macc
    demand_macc: Macc
    allocated_macc: Macc
    opportunistic_macc: Macc
    jobs_queued: Count
    jobs_running: Count
    revenue_micro_per_hour: Micro
    occupancy_ppm: Ppm

    def record_key(self) -> str:
        """Key: market and cycle."""
        return f"{self.market}/{self.cycle}"

    def partition_key(self) -> str:
        """By market."""
        return self.market
