"""A log in memory around the clearing stage, and a seeded stream of plausible input."""

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from walras_clearing_service.books import Solver
from walras_clearing_service.wiring import LIBRARY, spec
from walras_contracts.accounts import (
    AccountsChanged,
    Document,
    Gate,
    MarketDocument,
    PoolDocument,
    TeamAccount,
)
from walras_contracts.capacity import OwnSupply, SupplyPublished
from walras_contracts.cycle_frames import FoldedJob, FoldedMarket, FoldedTeam
from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.event import Event
from walras_contracts.market import (
    CycleFramed,
    CycleRecorded,
    CycleSummarised,
    PricePublished,
    QuotaGranted,
)
from walras_contracts.money import BalancePublished, BudgetPublished, StopReason
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import JobState, JobStatusChanged, WorkClass
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import Barrier, Output, emit, tombstone
from walras_runtime.stage import StageSpec

START_MS = 1_700_000_000_000
INTERVAL_MS = 60_000
INPUTS = ("queue", "supply", "accounts", "job.status", "placement.figures", "balances", "budgets")
COMPACTED = ("queue", "supply", "job.status", "balances", "budgets", "state.clearing")
OUTPUTS = ("prices", "quotas", "cycles", "cycles.frames")
FRAME_OF_HEAD = re.compile(rb'"frame":"[a-z]+","frames":[0-9]+,')
Held = tuple[dict[str, FoldedJob], dict[str, FoldedTeam]]
"""Jobs and teams of a market in one cycle."""
MARKETS = ("a100", "h100", "l40s")


def time_of(step: int) -> int:
    """Market time of barrier ``step``."""
    return START_MS + INTERVAL_MS * step


@dataclass
class ClearingWorld:
    """The topics around the stage; `feed` writes the input of one step and its barrier."""

    cycle_every: int = 1
    live: bool = False
    solver: Solver = LIBRARY
    log: MemoryLog = field(default_factory=lambda: MemoryLog(load_topics()))
    step: int = 0
    versions: dict[str, int] = field(default_factory=dict)

    @property
    def spec(self) -> StageSpec:
        return spec(self.cycle_every, live=self.live, solver=self.solver)

    def runner(self) -> MemoryRunner:
        """A process that has just started on the log."""
        return MemoryRunner(self.spec, self.log)

    def feed(self, *events: Event | Output) -> None:
        """Write the input of the next step, then its barrier into every partition."""
        self.log.append([e if isinstance(e, Output) else emit(e) for e in events])
        self.barrier()

    def barrier(self) -> None:
        for topic in INPUTS:
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, Barrier(self.step, time_of(self.step)))
        self.step += 1

    def document(self, document: Document, effective_ms: int | None = None) -> AccountsChanged:
        """The next version of a document, in effect at the next barrier unless said otherwise."""
        entity = document.entity()
        self.versions[entity] = self.versions.get(entity, 0) + 1
        at_ms = time_of(self.step) if effective_ms is None else effective_ms
        return AccountsChanged(version=self.versions[entity], effective_ms=at_ms, document=document)

    def bytes_out(self) -> dict[str, list[tuple[str, bytes | None]]]:
        """All that was written to the output topics, by topic and partition."""
        return {
            f"{topic}/{partition}": [(e.key, e.payload) for e in self.log.read(topic, partition, 0)]
            for topic in OUTPUTS
            for partition in self.log.partitions(topic)
        }

    def decided(self) -> dict[str, Any]:
        """All that was decided, whatever the deciding process remembered.

        A process that has just started frames a whole market where another frames the changes: the
        folds are equal, the frames are not.
        """
        found: dict[str, Any] = {
            place: [(key, FRAME_OF_HEAD.sub(b"", payload or b"")) for key, payload in entries]
            for place, entries in self.bytes_out().items()
            if not place.startswith("cycles.frames")
        }
        return {**found, **{f"frames of {market}": self.folded(market) for market in MARKETS}}

    def frames(self, market: str) -> list[CycleFramed]:
        found = [e for e in self.events("cycles.frames") if isinstance(e, CycleFramed)]
        return [e for e in found if e.market == market]

    def folded(self, market: str) -> dict[int, Held]:
        """What each cleared cycle of a market held, by cycle; checked against its head."""
        folded, found = FoldedMarket(market), {}
        for frame in self.frames(market):
            if folded.apply(frame):
                found[frame.cycle] = (dict(folded.jobs), dict(folded.teams))
        for head in self.records(market):
            jobs, teams = found.get(head.cycle, ({}, {}))
            assert (len(jobs), len(teams)) == (head.jobs, head.teams)
            assert (head.cycle in found) == (head.state == "cleared")
        return found

    def events(self, topic: str) -> list[Event]:
        """Decoded events of an output topic, by partition and offset."""
        return [
            decode_inner(entry.type, entry.payload)
            for partition in self.log.partitions(topic)
            for entry in self.log.read(topic, partition, 0)
            if entry.barrier is None and entry.payload is not None
        ]

    def records(self, market: str) -> list[CycleRecorded]:
        found = [e for e in self.events("cycles") if isinstance(e, CycleRecorded)]
        return sorted((e for e in found if e.market == market), key=lambda e: e.cycle)

    def summaries(self, market: str) -> list[CycleSummarised]:
        found = [e for e in self.events("cycles") if isinstance(e, CycleSummarised)]
        return sorted((e for e in found if e.market == market), key=lambda e: e.cycle)

    def prices(self, market: str) -> list[PricePublished]:
        found = [e for e in self.events("prices") if isinstance(e, PricePublished)]
        return [e for e in found if e.market == market]

    def quotas(self, team: str) -> list[QuotaGranted]:
        found = [e for e in self.events("quotas") if isinstance(e, QuotaGranted)]
        return [e for e in found if e.team == team]


def pool(name: str, weight: int, teams: dict[str, int], leverage_ppm: int = 2_000_000) -> Document:
    """A pool's document with the local incomes of its teams."""
    return PoolDocument(
        pool=name,
        weight_micro_per_hour=weight,
        leverage_ppm=leverage_ppm,
        teams=tuple(TeamAccount(team=t, income_local_per_hour=i) for t, i in teams.items()),
    )


def supply(market: str, shared: int, own: dict[str, int] | None = None, step: int = 0) -> Event:
    """What a market has to sell, in macc."""
    return SupplyPublished(
        market=market,
        shared_macc=shared,
        own=tuple(OwnSupply(pool=p, macc=m) for p, m in sorted((own or {}).items())),
        withheld_macc=0,
        market_time_ms=time_of(step),
    )


def queued(
    team: str,
    job: str,
    size: int,
    *,
    types: tuple[str, ...] = ("a100",),
    limit: int | None = None,
    position: int = 0,
    gang: bool = True,
    minimum_run_ms: int = 0,
    cancelled: bool = False,
    pool_name: str = "pool-0",
) -> JobQueued:
    """A job as intake queues it."""
    return JobQueued(
        team=team,
        pool=pool_name,
        job=job,
        types=types,
        size_macc=size,
        gang=gang,
        limit_micro=limit,
        expected_run_ms=None,
        minimum_run_ms=minimum_run_ms,
        drainability=Drainability.RESTART,
        deadline_ms=None,
        submitted_ms=START_MS,
        position=position,
        revision=0,
        cancelled=cancelled,
    )


def status(
    team: str,
    job: str,
    state: JobState,
    *,
    market: str | None = None,
    started_ms: int | None = None,
    reason: str = "",
    needed: int = 0,
) -> JobStatusChanged:
    """Where placement says that a job stands."""
    holds = state in (JobState.RUNNING, JobState.DRAINING)
    return JobStatusChanged(
        team=team,
        job=job,
        state=state,
        reason=reason,
        market=market,
        lease=f"{job}.1" if holds else None,
        work_class=WorkClass.MARKET if holds else None,
        attempt=1,
        remaining_run_ms=None,
        waited_ms=0,
        started_ms=started_ms,
        changed_ms=START_MS,
        needed_macc=needed,
        available_macc=0,
    )


def balance(team: str, wallet: int, boundary_ms: int = START_MS) -> Event:
    """A wallet, in µcr."""
    return BalancePublished(
        team=team,
        pool="pool-0",
        boundary_ms=boundary_ms,
        wallet_micro=wallet,
        earned_micro=0,
        spent_micro=0,
        credited_micro=0,
        expired_micro=0,
    )


def budget(team: str, *, exhausted: bool) -> Event:
    """Whether a team may bid."""
    return BudgetPublished(
        team=team,
        pool="pool-0",
        boundary_ms=START_MS,
        at_ms=START_MS,
        exhausted=exhausted,
        reason=StopReason.WALLET if exhausted else StopReason.NONE,
        budgets=(),
    )


class Stream:
    """Seeded input: jobs come, move, run, end; supply and accounts change; wallets settle."""

    def __init__(self, world: ClearingWorld, seed: int, teams: int = 6) -> None:
        self.draw = random.Random(seed)
        self.world = world
        self.teams = [f"team-{n}" for n in range(teams)]
        self.pools = ["pool-0", "pool-1", "pool-2"]
        self.jobs: dict[str, JobQueued] = {}
        self.count = 0
        self.supplies: dict[str, int] = {}

    def pool_of(self, team: str) -> str:
        return self.pools[self.teams.index(team) % len(self.pools)]

    def events(self) -> list[Event | Output]:
        """Input of the next step; at most one record per key."""
        found: list[Event | Output] = []
        if self.world.step == 0:
            found += [self._pool(name) for name in self.pools]
        elif self.draw.random() < 0.1:
            found.append(self._pool(self.draw.choice(self.pools)))
        if self.draw.random() < 0.05:
            gate = self.draw.choice([Gate.ON, Gate.ON, Gate.OFF, Gate.SHADOW])
            reserve = self.draw.choice([0, 0, 400_000])
            policies = MarketDocument(market="l40s", gate=gate, reserve_price_micro=reserve)
            found.append(self.world.document(policies))
        for market in MARKETS:
            if self.world.step == 0 or self.draw.random() < 0.1:
                found.append(self._supply(market))
        found += self._job_events()
        if self.world.step % 5 == 4:
            for team in self.teams:
                found.append(balance(team, self.draw.randrange(-(10**6), 4 * 10**6)))
                found.append(budget(team, exhausted=self.draw.random() < 0.1))
        return found

    def _pool(self, name: str) -> Event:
        weight = self.draw.randrange(1, 20) * 1_000_000
        members = [team for team in self.teams if self.pool_of(team) == name]
        incomes = {team: self.draw.randrange(0, 5) for team in members}
        late = self.draw.choice([0, 2]) * INTERVAL_MS if self.world.step else 0
        return self.world.document(pool(name, weight, incomes), time_of(self.world.step) + late)

    def _supply(self, market: str) -> Event:
        shared = self.draw.randrange(0, 12) * 1000
        own = {p: self.draw.randrange(0, 4) * 1000 for p in self.pools if self.draw.random() < 0.5}
        self.supplies[market] = shared + sum(own.values())
        return supply(market, shared, own, self.world.step)

    def _job_events(self) -> list[Event | Output]:
        found: list[Event | Output] = []
        for key in sorted(self.jobs):
            chance = self.draw.random()
            job = self.jobs[key]
            if chance < 0.05:
                found.append(tombstone(JobQueued, key, job.team))
                found.append(tombstone(JobStatusChanged, key, job.team))
                del self.jobs[key]
            elif chance < 0.1:
                limit = self.draw.choice([None, 0, 500_000, 2_000_000])
                self.jobs[key] = replace_event(job, limit_micro=limit)
                found.append(self.jobs[key])
            elif chance < 0.13:
                self.jobs[key] = replace_event(job, cancelled=True)
                found.append(self.jobs[key])
            elif chance < 0.4:
                found.append(self._status(job))
        for _ in range(self.draw.randrange(0, 5)):
            found.append(self._new_job())
        return found

    def _status(self, job: JobQueued) -> Event:
        state = self.draw.choice(list(JobState))
        market = self.draw.choice(job.types)
        if state in (JobState.RUNNING, JobState.DRAINING):
            started = time_of(self.world.step) - self.draw.randrange(0, 10) * INTERVAL_MS
            return status(job.team, job.job, state, market=market, started_ms=started)
        reason = self.draw.choice(list(WaitReason))
        return status(job.team, job.job, state, reason=reason)

    def _new_job(self) -> Event:
        team = self.draw.choice(self.teams)
        types = self.draw.sample([*MARKETS, "unknown"], self.draw.randrange(1, 4))
        job = queued(
            team,
            f"job-{self.count}",
            self.draw.choice([1, 1, 2, 4, 20]) * 1000,
            types=tuple(types),
            limit=self.draw.choice([None, None, 0, 300_000, 1_000_000, 3_000_000]),
            position=self.count,
            gang=self.draw.random() < 0.5,
            minimum_run_ms=self.draw.choice([0, 5 * INTERVAL_MS]),
            pool_name=self.pool_of(team),
        )
        self.count += 1
        self.jobs[job.record_key()] = job
        return job


def replace_event(job: JobQueued, **changes: object) -> JobQueued:
    """A later record of a job."""
    return job.model_copy(update={**changes, "revision": job.revision + 1})


def steps_of(seed: int, steps: int, cycle_every: int = 1) -> list[list[Event | Output]]:
    """The input of a number of steps, by a seed."""
    world = ClearingWorld(cycle_every)
    stream = Stream(world, seed)
    found = []
    for _ in range(steps):
        found.append(stream.events())
        world.step += 1
    return found


@dataclass(frozen=True)
class Kit:
    """What the tests of this folder share."""

    world: Callable[..., ClearingWorld] = ClearingWorld
    stream: Callable[..., Stream] = Stream
    steps: Callable[..., list[list[Event | Output]]] = steps_of
    pool: Callable[..., Document] = pool
    supply: Callable[..., Event] = supply
    queued: Callable[..., JobQueued] = queued
    status: Callable[..., JobStatusChanged] = status
    balance: Callable[..., Event] = balance
    budget: Callable[..., Event] = budget
    time_of: Callable[[int], int] = time_of
    compacted: Iterable[str] = COMPACTED
    inputs: Iterable[str] = INPUTS
    markets: tuple[str, ...] = MARKETS
    solver: Solver = LIBRARY

    def failing(self, market_supply_macc: int) -> Solver:
        """A solver whose checker refuses the market with this shared supply."""
        return replace(
            self.solver,
            verify=lambda market, result: (
                ("wrong",)
                if market.shared_supply_macc == market_supply_macc
                else self.solver.verify(market, result)
            ),
        )


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()
