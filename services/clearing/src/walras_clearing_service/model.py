"""Frozen values of a cycle: what clearing looks at, and how each market stood before.

Everything is an integer with its unit in the name; collections are sorted by id (design §1, §3).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from walras_clearing import Job
from walras_contracts.accounts import Gate, IdleOwnSupply, Margin

DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as one cycle sees it: the queue, its status and clearing's own memory of it.

    ``running_in`` is the market whose devices it holds (also while draining), None while it is
    pending. ``assigned`` is the market that clearing chose for it, None before the first choice.
    ``size_macc`` counts whole devices once placement has said what it needs. ``offer`` is the job
    as the auction takes it, with its true limit.
    """

    key: str
    team: str
    types: tuple[str, ...]
    size_macc: int
    limit_micro: int | None
    gang: bool
    minimum_run_ms: int
    position: int
    running_in: str | None
    draining: bool
    started_ms: int | None
    refused: bool
    """Placement says that no place for it exists at all."""
    assigned: str | None
    unplaceable_since: int | None
    """Cycle since which there is no place for it; None when there is one."""
    offer: Job
    row: bytes
    """All of the above as bytes, for the digest."""


@dataclass(frozen=True, slots=True)
class TeamInput:
    """A team with its means and its jobs in queue order.

    Without an account in effect the pool is the one that intake saw, and the income is 0.
    """

    team: str
    pool: str
    income_micro_per_hour: int
    leverage_ppm: int
    wallet_micro: int
    exhausted: bool
    jobs: tuple[JobView, ...]
    jobs_digest: bytes


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

    @property
    def total_macc(self) -> int:
        """Shared and own supply together."""
        return self.shared_macc + sum(self.own_macc.values())


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
    """All that cycle ``cycle`` depends on; teams, pools and markets sorted by id.

    ``stopped`` names markets that failed three times on this barrier: they are not cleared. It is
    the only field that does not come from the log and is no part of the digest.
    """

    cycle: int
    barrier: int
    market_time_ms: int
    settlement_barrier: int
    parameters: BidderParameters
    pools: tuple[PoolInput, ...]
    teams: tuple[TeamInput, ...]
    markets: tuple[MarketInput, ...]
    last: Mapping[str, LastClearing]
    stopped: tuple[str, ...] = field(default=())

    def digest(self) -> str:
        """Return 32 hex digits that change with anything the cycle depends on."""
        body = blake2b(digest_size=DIGEST_BYTES)
        head = (self.cycle, self.barrier, self.market_time_ms, self.settlement_barrier)
        body.update(repr((head, self.parameters, self.pools)).encode())
        for market in self.markets:
            body.update(repr(_plain(market)).encode())
        for name in sorted(self.last):
            last = self.last[name]
            body.update(
                repr(
                    (
                        name,
                        last.cycle,
                        last.reference_price_micro,
                        sorted(last.pool_prices_micro.items()),
                        last.unsold_macc,
                        sorted(last.idle_own_macc.items()),
                    )
                ).encode()
            )
        for team in self.teams:
            means = (team.team, team.pool, team.income_micro_per_hour, team.leverage_ppm)
            body.update(repr((means, team.wallet_micro, team.exhausted)).encode())
            body.update(team.jobs_digest)
        return body.hexdigest()


def _plain(market: MarketInput) -> tuple[object, ...]:
    return (
        market.market,
        market.shared_macc,
        sorted(market.own_macc.items()),
        market.gate.value,
        market.margin.value,
        market.idle_own_supply.value,
        market.reserve_price_micro,
    )


def jobs_digest(jobs: tuple[JobView, ...]) -> bytes:
    """Return the digest of a team's jobs, in queue order."""
    return blake2b(b"".join([job.row for job in jobs]), digest_size=DIGEST_BYTES).digest()
