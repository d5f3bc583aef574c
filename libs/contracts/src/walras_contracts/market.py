"""What clearing decides: prices, quotas, cycle records."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from walras_contracts.event import Event, Part
from walras_contracts.identifiers import Id, Text
from walras_contracts.quantities import (
    Count,
    Macc,
    MarketTimeMs,
    Micro,
    MicroPerHour,
    Number,
    NumberOrNone,
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


class TeamOutcome(Part):
    """What one team bid and got in one market."""

    team: Id
    pool: Id
    bid_micro_per_hour: MicroPerHour
    demand_macc: Macc
    allocated_macc: Macc
    opportunistic_macc: Macc


class PoolCertificate(Part):
    """A pool's price at the reference price less one tick."""

    pool: Id
    price_below_micro: PriceMicro


class CycleRecorded(Event):
    """A cycle of one market: the digest of its input, bids, results, certificate, policies."""

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
    pools: Annotated[tuple[PoolPrice, ...], Field(strict=False)]
    certificate: Annotated[tuple[PoolCertificate, ...], Field(strict=False)]
    teams: Annotated[tuple[TeamOutcome, ...], Field(strict=False)]

    def record_key(self) -> str:
        """Key: market and cycle."""
        return f"{self.market}/{self.cycle}"

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
