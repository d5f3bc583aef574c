"""One market with endless small jobs, and the gang of a team that has such jobs behind it too.

All stages are the real ones, on a log in memory (`tests.simulation.world`).
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.world import World
from walras_contracts.accounts import (
    AccountsRequested,
    MarketDocument,
    PoolDocument,
    Rounding,
    TeamAccount,
)
from walras_contracts.capacity import NodeObserved
from walras_contracts.demand import Drainability, JobSubmitted
from walras_contracts.event import Event
from walras_contracts.market import CycleRecorded
from walras_contracts.placing import PlacementMeasured
from walras_contracts.registry import decode_inner
from walras_contracts.work import JobState, JobStatusChanged, LeaseState
from walras_runtime.records import Barrier, emit

START_MS = 1_728_000_000_000
CYCLE_MS = 60_000
NODES, DEVICES = 4, 4
LONGEST_RUN_CYCLES = 8
"""R: no small job runs longer."""
GANG_AT = 12
"""The interval in which the gang is submitted: the market is full by then."""
WARM_UP = 6
OWNER = "owner"
GANG = "gang"


@dataclass
class GangMarket:
    """A market of sixteen devices over three teams of one pool.

    Parameters
    ----------
    rounding
        How the market rounds.
    seed
        Of sizes and run times of small jobs.
    share
        Share of the gang's team of all income, in sixteenths: with equal use so many devices.
    gang
        Devices that the gang needs.
    behind_until
        Interval from which on the team submits no more small jobs; None: it always does.
    sizes
        Devices of small jobs.
    behind
        Small jobs that the team submits in every interval while the gang waits.
    shortest_run_cycles
        No small job runs shorter.
    """

    rounding: Rounding
    seed: int
    share: int = 10
    gang: int = 8
    behind_until: int | None = None
    sizes: tuple[int, ...] = (1, 1, 2)
    behind: int = 4
    shortest_run_cycles: int = 2
    world: World = field(default_factory=World)
    started: int | None = None
    """Interval in which the gang was running first."""
    headed: int = GANG_AT
    """Interval in which the last job before it in the queue of its team was started."""
    overtaken_at: int = GANG_AT
    """Interval in which a job behind it in the queue was started last."""
    step: int = 0
    figures: list[PlacementMeasured] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)
        self._count = 0
        self._before: dict[str, None] = {}
        self._behind: dict[str, None] = {}
        self._read: dict[tuple[str, int], int] = {}

    def run(self, steps: int, *, until_started: bool = False) -> "GangMarket":
        """Drive a number of intervals, or until the gang runs."""
        if self.step == 0:
            self._tick([*self._accounts(), *self._nodes()])
        for _ in range(steps):
            self._tick(self._jobs())
            if until_started and self.started is not None:
                break
        return self

    @property
    def waited(self) -> int | None:
        """Cycles from when the gang was at the head of its queue to its start."""
        return None if self.started is None else self.started - self.headed

    def longest_drain(self) -> int:
        """Cycles from a request to leave until the devices were free, at most."""
        asked = {e.lease: e.requested_ms for e in self.events("vacate") if hasattr(e, "reason")}
        freed = [e for e in self.events("lease.status") if e.state is LeaseState.FREED]
        drains_ms = [e.at_ms - asked[e.lease] for e in freed if e.lease in asked]
        return -(-max(drains_ms, default=0) // CYCLE_MS)

    def waste_ppm(self) -> int:
        """Share of the bought quota, in macc times cycles, that its teams did not occupy."""
        counted = [f for f in self.figures if f.cycle >= WARM_UP]
        bought = sum(figures.bought_macc for figures in counted)
        return sum(figures.unspent_macc for figures in counted) * 10**6 // bought

    def occupancy_ppm(self) -> int:
        """Share of the devices that was held."""
        counted = [f for f in self.figures if f.cycle >= WARM_UP]
        usable = sum(figures.usable_macc for figures in counted)
        return sum(figures.held_macc for figures in counted) * 10**6 // usable

    def records(self) -> list[CycleRecorded]:
        """The cycle records of the market."""
        return [e for e in self.events("cycles") if isinstance(e, CycleRecorded)]

    def events(self, topic: str) -> list[Any]:
        """All events of a topic, partition by partition."""
        return [
            decode_inner(entry.type, entry.payload)
            for partition in self.world.log.partitions(topic)
            for entry in self.world.log.read(topic, partition, 0)
            if entry.barrier is None and entry.payload is not None
        ]

    def _tick(self, events: list[Event]) -> None:
        at_ms = START_MS + self.step * CYCLE_MS
        self.world.write(Barrier(self.step, at_ms), [emit(event) for event in events])
        self.world.settle()
        for event in self._new("placement.figures"):
            if event.market == "a":
                self.figures.append(event)
        for event in self._new("job.status"):
            assert isinstance(event, JobStatusChanged)
            if event.team != OWNER or event.state is not JobState.RUNNING:
                continue
            if event.job == GANG and self.started is None:
                self.started = self.step
            if event.job in self._before and event.attempt == 1:
                self.headed = max(self.headed, self.step)
            if event.job in self._behind:
                self.overtaken_at = self.step
        self.step += 1

    def _new(self, topic: str) -> Iterator[Any]:
        for partition in self.world.log.partitions(topic):
            since = self._read.get((topic, partition), 0)
            for entry in self.world.log.read(topic, partition, since):
                self._read[topic, partition] = entry.offset + 1
                if entry.barrier is None and entry.payload is not None:
                    yield decode_inner(entry.type, entry.payload)

    def _accounts(self) -> list[Event]:
        rest = NODES * DEVICES - self.share
        incomes = {OWNER: 2 * self.share, "other-1": rest, "other-2": rest}
        teams = tuple(
            TeamAccount(team=team, income_local_per_hour=income, leverage_ppm=2_000_000)
            for team, income in incomes.items()
        )
        return [
            AccountsRequested(document=MarketDocument(market="a", rounding=self.rounding)),
            AccountsRequested(
                document=PoolDocument(
                    pool="pool",
                    weight_micro_per_hour=16 * 10**7,
                    leverage_ppm=2_000_000,
                    teams=teams,
                )
            ),
        ]

    def _nodes(self) -> list[Event]:
        return [
            NodeObserved(
                node=f"node-{number}",
                type="a",
                cell="cell",
                devices=DEVICES,
                owner_pool=None,
                observed_ms=START_MS,
            )
            for number in range(NODES)
        ]

    def _jobs(self) -> list[Event]:
        """Enough small jobs of each team for all its devices to change hands, and more.

        The gang's team has no more than that before the gang comes: it is soon at the head.
        """
        found: list[Event] = []
        if self.step == GANG_AT:
            found.append(self._job(OWNER, GANG, self.gang, 10**9))
        for team in (OWNER, "other-1", "other-2"):
            count = 16 if self.step == 1 else 4
            if team == OWNER:
                count = self.behind
            if team == OWNER and self.step < GANG_AT:
                count = 8 if self.step == 1 else 1
            if team == OWNER and self.behind_until is not None and self.step >= self.behind_until:
                count = 0
            for _ in range(count):
                found.append(self._small_job(team))
        return found

    def _small_job(self, team: str) -> JobSubmitted:
        self._count += 1
        name = f"job-{self._count}"
        if team == OWNER:
            (self._before if self.step < GANG_AT else self._behind)[name] = None
        run_ms = self._draw.randint(self.shortest_run_cycles, LONGEST_RUN_CYCLES) * CYCLE_MS
        return self._job(team, name, self._draw.choice(self.sizes), run_ms)

    def _job(self, team: str, job: str, size: int, run_ms: int) -> JobSubmitted:
        return JobSubmitted(
            team=team,
            job=job,
            types=("a",),
            size_macc=size * 1000,
            gang=True,
            limit_micro=None,
            expected_run_ms=run_ms,
            drainability=Drainability.RESTART,
            submitted_ms=START_MS + (self.step - 1) * CYCLE_MS,
        )
