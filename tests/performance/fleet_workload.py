"""A fleet's market of any size, told by those who write clearing's inputs.

Attributes of jobs and teams are drawn at once as columns and are a function of the seed; events are
made from them as they are needed. Limits are log-normal, sizes powers of two, supply two fifths of
the demand; half of the pools own a part of it. Prices are around a million µcr.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walras_contracts.accounts import (
    AccountsChanged,
    Document,
    MarketDocument,
    PlatformDocument,
    PoolDocument,
    TeamAccount,
)
from walras_contracts.capacity import OwnSupply, SupplyPublished
from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.event import Event
from walras_contracts.identifiers import job_key
from walras_contracts.money import BalancePublished
from walras_contracts.quantities import PPM
from walras_contracts.work import JobState, JobStatusChanged, WorkClass
from walras_runtime.records import Output, emit, tombstone

MARKETS = ("a100-80gb", "h100-80gb", "v100-32gb")
START_MS = 1_800_000_000_000
CYCLE_MS = 30_000
MACC_PER_ACCELERATOR = 1000
LARGEST_SIZE_POWER = 8
SUPPLY_PERCENT = 40
"""Supply in percent of what all jobs ask for."""
OWN_PERCENT = 30
"""Of the supply that would be a pool's by its share: what is its property, in half of the pools."""
RUNNING_PERCENT = 40
"""Of the jobs."""
MEDIAN_LIMIT_MICRO = 2_000_000
LIMIT_SPREAD = 0.8
"""Standard deviation of the logarithm."""
UNLIMITED_PPM, ZERO_PPM = 100_000, 20_000
INCOME_SPREAD = 0.7
BUDGET_PRICE_MICRO = 1_000_000
"""At about this price half of the teams' incomes pay for their share of the supply."""
WALLET_STEP_PPM = 100_000
"""A wallet moves by at most so much of an hour's income between two cycles."""
WALLET_LEAST_PPM, WALLET_MOST_PPM = 200_000, 1_800_000
"""Of an hour's income. An empty wallet or one of two hours would bid the same when it changes."""


@dataclass(frozen=True, slots=True)
class FleetSize:
    """How large the market is.

    Parameters
    ----------
    jobs, teams, pools, markets
        How many; markets at most three, whose types every job accepts in an order of its own.
    spare_jobs
        How many jobs may come later, in place of others.
    """

    jobs: int
    teams: int
    pools: int
    markets: int
    spare_jobs: int


class FleetWorkload:
    """The fleet, from its first records to the changes of each cycle.

    Parameters
    ----------
    size
        How large it is.
    seed
        Of all draws.
    """

    def __init__(self, size: FleetSize, seed: int) -> None:
        self.size = size
        self.markets = MARKETS[: size.markets]
        self._random = random = np.random.default_rng(seed)
        self._pools = [f"pool-{k:03d}" for k in range(size.pools)]
        self._teams = [f"team-{t:05d}" for t in range(size.teams)]
        total = size.jobs + size.spare_jobs
        powers = np.arange(LARGEST_SIZE_POWER + 1)
        shares = 0.5**powers
        drawn = random.choice(powers, total, p=shares / shares.sum())
        self._size_macc = MACC_PER_ACCELERATOR << drawn.astype(np.int64)
        self._team = random.integers(size.teams, size=total)
        self._gang = random.random(total) < 0.5
        self._first_market = random.integers(size.markets, size=total)
        self._limits = self._drawn_limits(total)
        self._revision = np.zeros(total, dtype=np.int64)
        self._running = np.zeros(total, dtype=np.bool_)
        self._alive = np.arange(size.jobs)
        self._next_job = size.jobs
        self._income = self._drawn_incomes()
        # Parts in a million of an hour's income.
        self._wallet_ppm = random.integers(WALLET_LEAST_PPM, WALLET_MOST_PPM, size.teams)

    def time_ms(self, number: int) -> int:
        """Return the market time of a barrier."""
        return START_MS + number * CYCLE_MS

    def documents(self) -> list[Event]:
        """Return accounts and supply, which come before the first barrier."""
        documents: list[Document] = [PlatformDocument()]
        documents += [MarketDocument(market=market) for market in self.markets]
        documents += [self._pool(number) for number in range(self.size.pools)]
        changes: list[Event] = [
            AccountsChanged(version=1, effective_ms=START_MS, document=document)
            for document in documents
        ]
        return [*changes, *map(self._supply, range(len(self.markets)))]

    def queued(self, first: int, end: int, barrier: int) -> Iterator[Output]:
        """Yield the first queue and status records of some of the jobs."""
        runs = self._random.random(end - first) * 100 < RUNNING_PERCENT
        for job, does_run in zip(range(first, end), runs.tolist(), strict=True):
            yield emit(self._queued(job))
            if does_run:
                yield emit(self._started(job, barrier))

    def balances(self) -> Iterator[Output]:
        """Yield another wallet for every team."""
        step = self._random.integers(1, WALLET_STEP_PPM, self.size.teams)
        step *= self._random.choice((-1, 1), self.size.teams)
        moved = self._wallet_ppm + step
        outside = (moved < WALLET_LEAST_PPM) | (moved > WALLET_MOST_PPM)
        self._wallet_ppm = np.where(outside, self._wallet_ppm - step, moved)
        wallets = self._income * self._wallet_ppm // PPM
        for number, wallet_micro in enumerate(wallets.tolist()):
            balance = BalancePublished(
                team=self._teams[number],
                pool=self._pool_of(number),
                boundary_ms=START_MS,
                wallet_micro=wallet_micro,
                earned_micro=wallet_micro,
                spent_micro=0,
                credited_micro=0,
                expired_micro=0,
            )
            yield emit(balance)

    def changes(self, count: int, barrier: int) -> Iterator[Output]:
        """Yield ``count`` queue records, and what placement says of the same jobs.

        One half are other limits; of the rest every second is a job that leaves, every second one
        that comes. As many jobs start as running ones leave.
        """
        chosen = self._random.choice(len(self._alive), count - count // 4, replace=False)
        leave, change = chosen[: count // 4].tolist(), chosen[count // 4 :].tolist()
        limits = self._drawn_limits(len(change)).tolist()
        for place, limit in zip(change, limits, strict=True):
            job = int(self._alive[place])
            self._limits[job] = limit
            self._revision[job] += 1
            yield emit(self._queued(job))
        for place in leave:
            gone, came = int(self._alive[place]), self._next_job
            self._next_job += 1
            self._alive[place] = came
            team = self._teams[self._team[gone]]
            yield tombstone(JobQueued, job_key(team, _name(gone)), team)
            yield emit(self._queued(came))
            if self._running[gone]:
                yield tombstone(JobStatusChanged, job_key(team, _name(gone)), team)
                yield emit(self._started(self._some_pending(), barrier))

    def _some_pending(self) -> int:
        while True:
            job = int(self._alive[self._random.integers(len(self._alive))])
            if not self._running[job]:
                return job

    def _drawn_limits(self, count: int) -> NDArray[np.int64]:
        """Return limits; -1 for none."""
        normal = self._random.standard_normal(count)
        limits = (MEDIAN_LIMIT_MICRO * np.exp(LIMIT_SPREAD * normal)).astype(np.int64)
        kind = self._random.integers(PPM, size=count)
        limits[kind < UNLIMITED_PPM] = -1
        limits[kind >= PPM - ZERO_PPM] = 0
        return limits

    def _drawn_incomes(self) -> NDArray[np.int64]:
        first = slice(0, self.size.jobs)
        asked = np.bincount(
            self._team[first], weights=self._size_macc[first], minlength=self.size.teams
        )
        share = asked / MACC_PER_ACCELERATOR * SUPPLY_PERCENT / 100
        normal = self._random.standard_normal(self.size.teams)
        incomes = BUDGET_PRICE_MICRO * share * np.exp(INCOME_SPREAD * normal)
        # Whole credits, so that a pool's local incomes and its weight have the ratio of a million.
        return np.maximum(1, (incomes / PPM).astype(np.int64)) * PPM

    def _pool_of(self, team: int) -> str:
        return self._pools[team % self.size.pools]

    def _pool(self, number: int) -> PoolDocument:
        members = range(number, self.size.teams, self.size.pools)
        return PoolDocument(
            pool=self._pools[number],
            weight_micro_per_hour=sum(int(self._income[team]) for team in members),
            teams=tuple(
                TeamAccount(
                    team=self._teams[team], income_local_per_hour=int(self._income[team]) // PPM
                )
                for team in members
            ),
        )

    def _supply(self, number: int) -> SupplyPublished:
        asked_macc = int(self._size_macc[: self.size.jobs].sum())
        there_macc = asked_macc * SUPPLY_PERCENT // 100 // self.size.markets
        own_macc = there_macc * OWN_PERCENT // 100 // self.size.pools
        own = tuple(OwnSupply(pool=pool, macc=own_macc) for pool in self._pools[::2])
        return SupplyPublished(
            market=self.markets[number],
            shared_macc=there_macc - own_macc * len(own),
            own=own,
            withheld_macc=0,
            market_time_ms=START_MS,
        )

    def _queued(self, job: int) -> JobQueued:
        team, limit = int(self._team[job]), int(self._limits[job])
        first = int(self._first_market[job])
        return JobQueued(
            team=self._teams[team],
            pool=self._pool_of(team),
            job=_name(job),
            types=self.markets[first:] + self.markets[:first],
            size_macc=int(self._size_macc[job]),
            gang=bool(self._gang[job]),
            limit_micro=None if limit < 0 else limit,
            expected_run_ms=None,
            minimum_run_ms=0 if job % 5 else 20 * CYCLE_MS,
            drainability=Drainability.RESTART,
            deadline_ms=None,
            submitted_ms=START_MS,
            position=job,
            revision=int(self._revision[job]),
            cancelled=False,
        )

    def _started(self, job: int, barrier: int) -> JobStatusChanged:
        self._running[job] = True
        now_ms = self.time_ms(barrier)
        return JobStatusChanged(
            team=self._teams[self._team[job]],
            job=_name(job),
            state=JobState.RUNNING,
            reason="",
            market=self.markets[self._first_market[job]],
            lease=f"l{job:07d}",
            work_class=WorkClass.MARKET,
            attempt=1,
            remaining_run_ms=None,
            waited_ms=0,
            started_ms=now_ms,
            changed_ms=now_ms,
            needed_macc=int(self._size_macc[job]),
            available_macc=0,
        )


def _name(job: int) -> str:
    return f"j{job:07d}"
