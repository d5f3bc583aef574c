"""Frozen values of a cycle: pools, markets, policies, and how each market stood before.

Everything is an integer with its unit in the name; collections are sorted by id (design §1, §3).
Jobs and teams are columns (`job_table`, `team_table`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from walras_contracts.accounts import Gate, IdleOwnSupply, Margin, Rounding


@dataclass(frozen=True, slots=True)
class PoolInput:
    """A pool: market weight W, sum of local incomes C, leverage."""

    pool: str
    weight_micro_per_hour: int
    local_income_per_hour: int
    leverage_ppm: int


@dataclass(frozen=True, slots=True)
class MarketInput:
    """What one market has to sell, and its policies."""

    market: str
    shared_macc: int
    own_macc: Mapping[str, int]
    gate: Gate
    margin: Margin
    idle_own_supply: IdleOwnSupply
    reserve_price_micro: int
    rounding: Rounding = Rounding.BACKFILL

    @property
    def total_macc(self) -> int:
        """Shared and own supply together."""
        return self.shared_macc + sum(self.own_macc.values())


@dataclass(frozen=True, slots=True)
class StuckHead:
    """The first job of a team's queue in a market, as placement told it once it had waited long.

    ``job`` is its key ``team/job``. From ``turn_since_ms`` on no job of its team may overtake it;
    None: they may.
    """

    team: str
    job: str
    waited_cycles: int
    pending_since_ms: int
    turn_since_ms: int | None


@dataclass(frozen=True, slots=True)
class LastClearing:
    """How a market stood when it was last cleared.

    ``unsold_macc`` is the shared (and lent) supply that nobody bought; ``idle_own_macc`` names per
    pool with an own price of 0 the own supply that its teams did not use.
    """

    cycle: int
    reference_price_micro: int | None
    pool_prices_micro: Mapping[str, int | None]
    unsold_macc: int
    idle_own_macc: Mapping[str, int]

    def price_for(self, pool: str) -> int | None:
        """Price that the teams of a pool paid; a pool that is new paid the reference price."""
        return self.pool_prices_micro.get(pool, self.reference_price_micro)


@dataclass(frozen=True, slots=True)
class BidderParameters:
    """The bidder's named values of the platform document in effect (design §4 Bids)."""

    minimum_affordable_minutes: int
    move_gap_ppm: int
    move_share_ppm: int
    retention_gap_ppm: int
    unplaceable_after_cycles: int


@dataclass(frozen=True, slots=True)
class CycleInput:
    """What cycle ``cycle`` depends on beside the columns of jobs and teams; all sorted by id.

    ``stuck`` holds the stuck heads of markets with rounding ``release`` that have any. ``digest``
    covers the columns too. ``stopped`` names markets that failed three times on this
    barrier: they are not cleared. It is the only field that does not come from the log and is no
    part of the digest.
    """

    cycle: int
    barrier: int
    market_time_ms: int
    settlement_barrier: int
    parameters: BidderParameters
    pools: tuple[PoolInput, ...]
    markets: tuple[MarketInput, ...]
    last: Mapping[str, LastClearing]
    stuck: Mapping[str, tuple[StuckHead, ...]]
    digest: str
    stopped: tuple[str, ...] = field(default=())
