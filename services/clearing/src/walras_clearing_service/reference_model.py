"""The input of a cycle as plain values, job by job: what the columns stand for.

With the other `reference_` modules this is the specification of the columns: slow and obvious, and
what tests compare them with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from walras_clearing import Job
from walras_clearing_service.input_digest import (
    SUM_SPACE,
    TeamColumns,
    cycle_digest,
    row_digest,
)
from walras_clearing_service.model import (
    BidderParameters,
    LastClearing,
    MarketInput,
    PoolInput,
    StuckHead,
)
from walras_clearing_service.names import hash_of


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
    runs_for_nothing: bool = False


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


@dataclass(frozen=True, slots=True)
class PlainCycleInput:
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
    stuck: Mapping[str, tuple[StuckHead, ...]] = field(default_factory=dict)

    def digest(self) -> str:
        """Return 32 hex digits that change with anything the cycle depends on."""
        jobs = [job for team in self.teams for job in team.jobs]
        total = sum(row_digest(job.key, _words(job)) for job in jobs) % SUM_SPACE
        return cycle_digest(
            (self.cycle, self.barrier, self.market_time_ms, self.settlement_barrier),
            self.parameters,
            self.pools,
            self.markets,
            self.last,
            stuck=self.stuck,
            teams=TeamColumns(
                [team.team for team in self.teams],
                [team.pool for team in self.teams],
                [team.income_micro_per_hour for team in self.teams],
                [team.leverage_ppm for team in self.teams],
                [team.wallet_micro for team in self.teams],
                [team.exhausted for team in self.teams],
            ),
            jobs=(len(jobs), total),
        )


def _words(job: JobView) -> tuple[int, ...]:
    return (
        hash_of("/".join(job.types)),
        job.size_macc,
        -1 if job.limit_micro is None else job.limit_micro,
        job.gang + 2 * job.draining + 4 * job.refused + 8 * job.runs_for_nothing,
        job.minimum_run_ms,
        job.position,
        0 if job.running_in is None else hash_of(job.running_in),
        -1 if job.started_ms is None else job.started_ms,
        0 if job.assigned is None else hash_of(job.assigned),
        -1 if job.unplaceable_since is None else job.unplaceable_since,
    )
