"""A fleet of any size for placement alone: nodes in domains, running leases, a queue, quotas.

What it draws is a function of the seed. Jobs are mostly small, some are gangs over several nodes;
teams' quotas cover what they run and a little more, so that what leaves makes room for what waits.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from walras_contracts.capacity import NodePublished, NodeState
from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.event import Event
from walras_contracts.market import MarketQuota, QuotaGranted
from walras_contracts.work import LeaseGranted, LeaseOutcome, LeaseState, LeaseStatusChanged
from walras_placement.handlers import PlacementStage, Planner
from walras_placement.rules import Rules
from walras_runtime.records import Barrier, Output, Record, Step, StepResult

INPUTS = (
    *("accounts", "nodes", "quotas", "queue", "lease.status", "drain.status", "drain.requests"),
    *("budgets", "drain.scores"),
)
TABLES = frozenset({"accounts", "nodes", "quotas", "queue", "budgets", "drain.scores"})
KINDS = ("h100", "a100", "v100")
DEVICES = 16
NODES_OF_A_DOMAIN = 40
SIZES = {1: 850, 2: 90, 4: 35, 8: 20, 24: 4, 64: 1}
"""Devices of a job: parts in a thousand."""
START_MS = 1_728_000_000_000
MINUTE_MS = 60_000


@dataclass
class Fleet:
    """A placement stage with a fleet around it.

    Parameters
    ----------
    nodes, leases, waiting, teams
        How large it is; ``waiting`` jobs are pending beside those that run.
    seed
        Of all draws.
    planner
        Plans.
    """

    nodes: int
    leases: int
    waiting: int
    teams: int
    seed: int
    planner: Planner
    stage: PlacementStage = field(init=False)
    state: dict[str, bytes] = field(default_factory=dict)
    queue: dict[str, JobQueued] = field(default_factory=dict)
    quotas: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    parts: dict[str, list[LeaseGranted]] = field(default_factory=dict)
    number: int = -1
    made: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.stage = PlacementStage(Rules(), self.planner)

    def fill(self) -> None:
        """Let all leases start."""
        given: list[Event] = [self._node(number) for number in range(self.nodes)]
        given += [self._job() for _ in range(self.leases)]
        held: dict[str, dict[str, int]] = {}
        for job in self.queue.values():
            of_team = held.setdefault(job.team, {})
            of_team[job.types[0]] = of_team.get(job.types[0], 0) + job.size_macc
        for team, markets in held.items():
            self.quotas[team] = {kind: (macc, 1_000_000) for kind, macc in markets.items()}
        given += [self._quota(team) for team in sorted(self.quotas)]
        self.step(given)
        self.step([self._job() for _ in range(self.waiting)])

    def changes(self, percent: int) -> list[Event]:
        """Return a step's events: leases that end, new jobs, teams with other quota."""
        draw = self._random
        count = len(self.parts) * percent // 100
        given: list[Event] = []
        for lease in draw.sample(sorted(self.parts), count):
            for part in self.parts[lease]:
                given.append(
                    LeaseStatusChanged(
                        lease=part.lease,
                        node=part.node,
                        team=part.team,
                        job=part.job,
                        state=LeaseState.FREED,
                        outcome=LeaseOutcome.FINISHED,
                        remaining_run_ms=0,
                        at_ms=self.now_ms + 1,
                    )
                )
        given += [self._job() for _ in range(count)]
        for team in draw.sample(sorted(self.quotas), max(1, self.teams * percent // 100)):
            for kind, (macc, price) in self.quotas[team].items():
                moved = macc * draw.randint(90, 110) // 100
                self.quotas[team][kind] = (moved // 1000 * 1000, price)
            given.append(self._quota(team))
        return given

    def new_prices(self) -> list[Event]:
        """Return new quotas of all teams: the same, at other prices."""
        price = {kind: self._random.randint(900_000, 1_100_000) for kind in KINDS}
        for markets in self.quotas.values():
            for kind, (macc, _) in markets.items():
                markets[kind] = (macc, price[kind])
        return [self._quota(team) for team in sorted(self.quotas)]

    @property
    def now_ms(self) -> int:
        """Market time of the last step."""
        return START_MS + self.number * MINUTE_MS

    def step(self, given: list[Event]) -> StepResult:
        """Let the stage do a step; follow what it wrote."""
        prepared = self.prepare(given)
        result = self.stage.step(prepared)
        self.follow(result)
        return result

    def prepare(self, given: list[Event]) -> Step:
        """Fold what comes, and return the step."""
        self.number += 1
        records: dict[str, list[Record]] = {topic: [] for topic in INPUTS}
        for event in given:
            record = _record(event)
            records[event.TOPIC].append(record)
            if event.TOPIC in TABLES:
                self.stage.fold(record)
        return Step(Barrier(self.number, self.now_ms), records)

    def follow(self, result: StepResult) -> None:
        """Take the leases that began and ended, and the own state."""
        for change in result.state:
            if change.value is None:
                self.state.pop(change.key, None)
            else:
                self.state[change.key] = change.value
        for output in result.outputs:
            if output.topic == "leases":
                self._follow_part(output)

    def restart(self) -> None:
        """Lose the stage, and restore another one from tables and own state."""
        self.stage = PlacementStage(Rules(), self.planner)
        for event in self.tables():
            self.stage.fold(_record(event))
        for key, value in self.state.items():
            self.stage.load(key, value)

    def tables(self) -> Iterator[Event]:
        """Yield what the tables hold."""
        for number in range(self.nodes):
            yield self._node(number)
        yield from self.queue.values()
        for team in sorted(self.quotas):
            yield self._quota(team)

    def _follow_part(self, output: Output) -> None:
        lease, _, node = output.key.partition("/")
        if output.payload is None:
            left = [part for part in self.parts.get(lease, ()) if part.node != node]
            if left:
                self.parts[lease] = left
            else:
                self.parts.pop(lease, None)
            return
        part = LeaseGranted.model_validate_json(output.payload)
        others = [each for each in self.parts.get(lease, ()) if each.node != node]
        self.parts[lease] = [*others, part]

    def _node(self, number: int) -> NodePublished:
        domain = number // NODES_OF_A_DOMAIN
        return NodePublished(
            node=f"n{number:05d}",
            type=KINDS[domain % len(KINDS)],
            cell=f"c{domain % 4}",
            devices=DEVICES,
            macc_per_device=1000,
            owner_pool=None,
            withheld_devices=(),
            state=NodeState.ACTIVE,
            domain=f"d{domain:03d}",
        )

    def _job(self) -> JobQueued:
        draw = self._random
        number = self.made
        self.made += 1
        kind = draw.randrange(len(KINDS))
        types = (KINDS[kind],) if draw.random() < 0.7 else (KINDS[kind], KINDS[kind - 1])
        size = draw.choices(list(SIZES), list(SIZES.values()))[0]
        job = JobQueued(
            team=f"t{draw.randrange(self.teams):04d}",
            pool="p",
            job=f"j{number:07d}",
            types=types,
            size_macc=1000 * size,
            gang=True,
            limit_micro=None if draw.random() < 0.1 else draw.randint(500_000, 32_000_000),
            expected_run_ms=3_600_000,
            minimum_run_ms=0,
            drainability=Drainability.RESTART,
            deadline_ms=None,
            submitted_ms=max(0, self.now_ms),
            position=number,
            revision=0,
            cancelled=False,
        )
        self.queue[job.record_key()] = job
        return job

    def _quota(self, team: str) -> QuotaGranted:
        return QuotaGranted(
            team=team,
            pool="p",
            cycle=max(0, self.number),
            market_time_ms=max(START_MS, self.now_ms),
            markets=tuple(
                MarketQuota(
                    market=kind, allocated_macc=macc, opportunistic_macc=0, price_micro=price
                )
                for kind, (macc, price) in sorted(self.quotas[team].items())
            ),
        )


def _record(event: Event) -> Record:
    return Record(event.TOPIC, 0, 0, event.record_key(), event.TYPE, b"", event)
