"""A market of any size in the style of the demo's scenario: same types, limits and job shares.

What it draws is a function of the seed. The supply follows the number of jobs, so that prices stay
in the same range at every size.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.performance.machine import ROOT
from walras.scenario import Pool, Scenario, load_scenario
from walras_contracts.accounts import (
    AccountsRequested,
    Document,
    MarketDocument,
    PoolDocument,
    TeamAccount,
)
from walras_contracts.capacity import NodeObserved
from walras_contracts.demand import JobLimitChanged, JobSubmitted
from walras_contracts.quantities import PPM

SCENARIO = ROOT / "scenarios" / "itp_week.toml"
SIZES = {1: 560, 2: 150, 4: 120, 8: 110, 16: 40, 32: 20}
"""Accelerators of a job: parts in a thousand."""
MEAN_SIZE_MILLI = sum(size * parts for size, parts in SIZES.items())
MACC_PER_DEVICE = 1000
LOAD_PERCENT = 200
"""Accelerators asked for, in percent of those there are."""


@dataclass
class Workload:
    """Accounts, inventory and jobs.

    Parameters
    ----------
    jobs
        For how many jobs the supply is made.
    teams_per_pool
        Teams in each of the scenario's pools.
    seed
        Of all draws.
    """

    jobs: int
    teams_per_pool: int
    seed: int
    scenario: Scenario = field(default_factory=lambda: load_scenario(SCENARIO))
    submitted: list[JobSubmitted] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed}/{self.jobs}/{self.teams_per_pool}")
        self._revisions: dict[int, int] = {}
        devices = self.jobs * MEAN_SIZE_MILLI * 100 // (1000 * LOAD_PERCENT)
        parts = range(1, len(self.scenario.pools) + 1)
        # Pools of unlike size: the largest has ten times the load of the smallest.
        self._load = {
            pool.pool: max(3, devices * part // sum(parts))
            for pool, part in zip(self.scenario.pools, parts, strict=True)
        }

    @property
    def start_ms(self) -> int:
        """Market time of barrier 0: where the scenario's window begins."""
        window = self.scenario.trace
        return window.origin_ms + window.window_start_s * 1000

    def time_ms(self, number: int) -> int:
        """Return the market time of a barrier."""
        return self.start_ms + number * self.scenario.clock.interval_ms

    def accounts(self) -> list[AccountsRequested]:
        """Return the documents of the platform, the markets and the pools."""
        documents: list[Document] = [self.scenario.platform.document()]
        documents += [MarketDocument(market=t.type) for t in self.scenario.supply.types]
        documents += [self._pool(pool) for pool in self.scenario.pools]
        return [AccountsRequested(document=document) for document in documents]

    def inventory(self) -> list[NodeObserved]:
        """Return one node per type and owner, like the scenario's flat pool of devices."""
        supply = self.scenario.supply
        found: dict[tuple[str, str | None], int] = {}
        for pool, load in self._load.items():
            for share in supply.types:
                devices = max(1, load * share.share_ppm // PPM)
                own = devices * supply.own_share_ppm // PPM
                found[share.type, pool] = own
                found[share.type, None] = found.get((share.type, None), 0) + devices - own
        return [
            NodeObserved(
                node=f"{kind}-{owner or 'shared'}",
                type=kind,
                cell=supply.cell,
                devices=devices,
                macc_per_device=MACC_PER_DEVICE,
                owner_pool=owner,
                observed_ms=self.start_ms,
            )
            for (kind, owner), devices in found.items()
            if devices
        ]

    def submit(self, count: int, barrier: int) -> Iterator[JobSubmitted]:
        """Yield new jobs, submitted before a barrier."""
        draw, jobs = self._random, self.scenario.jobs
        names, loads = list(self._load), list(self._load.values())
        for _ in range(count):
            size = draw.choices(list(SIZES), list(SIZES.values()))[0]
            large = size >= jobs.large_job_accelerators
            team = 0 if large else draw.randrange(self.teams_per_pool)
            job = JobSubmitted(
                team=_team(draw.choices(names, loads)[0], team),
                job=f"j{len(self.submitted):06d}",
                types=draw.choices(jobs.accepts, [a.share_ppm for a in jobs.accepts])[0].types,
                size_macc=size * MACC_PER_DEVICE,
                limit_micro=self._limit(),
                expected_run_ms=draw.randrange(60, 86_400) * 1000,
                minimum_run_ms=draw.choices(
                    jobs.minimum_runs, [m.share_ppm for m in jobs.minimum_runs]
                )[0].minimum_run_ms,
                drainability=draw.choices(
                    jobs.drainability, [d.share_ppm for d in jobs.drainability]
                )[0].declared,
                submitted_ms=self.time_ms(barrier) - 1,
            )
            self.submitted.append(job)
            yield job

    def change_limits(self, count: int) -> Iterator[JobLimitChanged]:
        """Yield a new limit for ``count`` of the jobs."""
        for index in self._random.sample(range(len(self.submitted)), count):
            job = self.submitted[index]
            self._revisions[index] = revision = self._revisions.get(index, 0) + 1
            yield JobLimitChanged(
                team=job.team, job=job.job, revision=revision, limit_micro=self._limit()
            )

    def _limit(self) -> int | None:
        limits = self.scenario.jobs.limits
        kind = self._random.randrange(PPM)
        if kind < limits.none_ppm:
            return None
        if kind < limits.none_ppm + limits.zero_ppm:
            return 0
        lowest = limits.lowest_micro << self._random.randrange(limits.octaves)
        return self._random.randrange(lowest, 2 * lowest)

    def _pool(self, pool: Pool) -> PoolDocument:
        scale = self.scenario.money.scale_micro_per_accelerator_hour
        return PoolDocument(
            pool=pool.pool,
            weight_micro_per_hour=self._load[pool.pool] * scale * pool.weight_factor_ppm // PPM,
            leverage_ppm=pool.leverage_ppm,
            teams=tuple(
                TeamAccount(
                    team=_team(pool.pool, index),
                    # The first team, which has the large jobs, is the richest.
                    income_local_per_hour=1000 * (self.teams_per_pool - index),
                    leverage_ppm=pool.leverage_ppm,
                )
                for index in range(self.teams_per_pool)
            ),
        )


def _team(pool: str, index: int) -> str:
    return f"{pool}-{index:02d}"
