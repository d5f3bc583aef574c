"""What is cleared and what comes out: frozen values, integers only (design §1, §4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

IdleOwnSupply = Literal["keep", "lend"]
"""`keep`: unused own supply stays with its pool. `lend`: it joins the shared supply."""

Margin = Literal["pro_rata", "strict_order"]
"""How jobs whose limit equals the pool price share what cannot serve them all."""


@dataclass(frozen=True, slots=True)
class Job:
    """Queued demand; its place in `Team.jobs` is its queue position.

    `size_macc` is in milli-accelerators, `limit_micro` in µcr per accelerator-hour. A limit of
    ``None`` accepts any price; a limit of 0 makes the job opportunistic.
    """

    job: str
    size_macc: int
    limit_micro: int | None = None


@dataclass(frozen=True, slots=True)
class Team:
    """A bidder: what it may spend in this market, in µcr per hour, and its queue."""

    team: str
    pool: str
    bid_micro_per_hour: int
    jobs: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class Pool:
    """A business unit with its own supply in macc; `weight` (µcr/h) only orders leftovers."""

    pool: str
    own_supply_macc: int
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Market:
    """One auction of one resource type.

    `shared_supply_macc` is what all pools may buy; `reserve_price_micro` is the lowest reference
    price, in µcr per accelerator-hour.
    """

    shared_supply_macc: int
    pools: tuple[Pool, ...]
    teams: tuple[Team, ...]
    reserve_price_micro: int = 0
    idle_own_supply: IdleOwnSupply = "keep"
    margin: Margin = "pro_rata"


@dataclass(frozen=True, slots=True)
class PoolResult:
    """Outcome of a pool.

    `price_micro` is ``None`` where the pool has nothing to price (no own supply, and no shared
    supply in the market); `purchased_macc` is its part of the shared supply; `allocated_macc` is
    what its teams got at the pool price.
    """

    price_micro: int | None
    purchased_macc: int
    allocated_macc: int


@dataclass(frozen=True, slots=True)
class TeamResult:
    """Outcome of a team: what it got at the pool price, and leftovers at price 0, in macc."""

    allocated_macc: int
    opportunistic_macc: int


@dataclass(frozen=True, slots=True)
class Certificate:
    """What makes the reference price checkable without solving the market again.

    `pool_prices_below_micro` holds each pool's price one tick below the reference price. It is
    ``None`` where nothing has to be shown: the price is absent, or equals the reserve.
    """

    pool_prices_below_micro: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class ClearingResult:
    """Prices and quantities of one market, all mappings in id order (UTF-8 bytes).

    `reference_price_micro` is ``None`` where no shared supply exists. The surplus of a pool is
    what its teams pay beyond the cost of its purchases, in nano-credits per hour: one µcr per
    accelerator-hour times one macc, so that it is an exact integer.
    """

    reference_price_micro: int | None
    pools: Mapping[str, PoolResult]
    teams: Mapping[str, TeamResult]
    certificate: Certificate
    surplus_nano_per_hour: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PriceHint:
    """Where the search for prices starts; it changes the time taken, never the result.

    Usually the prices of the last cycle. Pools that are not named start from 0.
    """

    reference_price_micro: int
    pool_prices_micro: Mapping[str, int]
