"""A world of three services on one log, scenarios that drive it, and an auditor that follows it.

Every scenario is a function of its seed; the auditor shares no code with the services.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from walras_billing.settings import Settings as BillingSettings
from walras_billing.wiring import build as build_billing
from walras_contracts.accounts import AccountsChanged, PoolDocument, TeamAccount
from walras_contracts.capacity import NodePublished, NodeState
from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.event import Event
from walras_contracts.market import MarketQuota, PoolPrice, PricePublished, QuotaGranted
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.work import (
    JobState,
    JobStatusChanged,
    LeaseGranted,
    LeaseState,
    LeaseStatusChanged,
    UsageMetered,
    VacateRequested,
    WorkClass,
)
from walras_node_agent.settings import Settings as FleetSettings
from walras_node_agent.wiring import build as build_fleet
from walras_placement.settings import Settings as PlacementSettings
from walras_placement.wiring import build as build_placement
from walras_runtime.memory.log import Entry, MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import Barrier, Output, emit, tombstone
from walras_runtime.stage import StageSpec

START_MS = 1_728_000_000
MINUTE_MS = 60_000
TEAMS = {"t1": "p1", "t2": "p1", "t3": "p2", "t4": "p2"}
INCOMES = {"t1": 1, "t2": 2, "t3": 3, "t4": 0}
WEIGHTS = {"p1": 7_000_001, "p2": 5_000_003}
DRIVEN = ("nodes", "quotas", "queue", "prices", "accounts", "lease.status", "usage")

Restart = Callable[[int, str], bool]


def stages() -> list[tuple[str, StageSpec, int]]:
    placement = build_placement(PlacementSettings(kafka_bootstrap="none"))
    fleet = build_fleet(FleetSettings(kafka_bootstrap="none"))
    billing = build_billing(BillingSettings(kafka_bootstrap="none"))
    spread = load_topics()["state.billing"].partitions
    return [
        ("placement", placement, 0),
        ("fleet", fleet, 0),
        *((f"billing-{partition}", billing, partition) for partition in range(spread)),
    ]


class World:
    """A log with the three services; ``restart(step, name)`` says who is lost before a step."""

    def __init__(self, restart: Restart = lambda _step, _name: False) -> None:
        self.log = MemoryLog(load_topics())
        self.step = -1
        self._restart = restart
        self._runners = {
            name: MemoryRunner(spec, self.log, partition) for name, spec, partition in stages()
        }

    def tick(self, outputs: Iterable[Output]) -> None:
        self.log.append(list(outputs))
        self.step += 1
        barrier = Barrier(self.step, START_MS + self.step * MINUTE_MS)
        for topic in DRIVEN:
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, barrier)
        for name, spec, partition in stages():
            if self._restart(self.step, name):
                self._runners[name] = MemoryRunner(spec, self.log, partition)
            assert self._runners[name].advance() == 1

    def compact(self) -> None:
        for topic in self.log.topics.values():
            if topic.cleanup == "compact":
                self.log.compact(topic.name)
        for name, spec, partition in stages():
            self._runners[name] = MemoryRunner(spec, self.log, partition)

    def events(self, topic: str, since: dict[int, int] | None = None) -> list[Entry]:
        """Return a topic's records, partition by partition, from the given offsets on."""
        since = {} if since is None else since
        found = []
        for partition in self.log.partitions(topic):
            for entry in self.log.read(topic, partition, since.get(partition, 0)):
                since[partition] = entry.offset + 1
                if entry.barrier is None:
                    found.append(entry)
        return found


def decoded(entries: Iterable[Entry]) -> list[Event]:
    return [decode_inner(e.type, e.payload) for e in entries if e.payload is not None]


def accounts() -> list[Output]:
    found = []
    for pool, weight in WEIGHTS.items():
        teams = tuple(
            TeamAccount(team=team, income_local_per_hour=INCOMES[team])
            for team, owner in TEAMS.items()
            if owner == pool
        )
        document = PoolDocument(pool=pool, weight_micro_per_hour=weight, teams=teams)
        found.append(emit(AccountsChanged(version=1, effective_ms=START_MS, document=document)))
    return found


class Scenario:
    """The outside of one seed: nodes, jobs, cancels, quotas, prices, step by step."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = random.Random(seed)
        self.world = world
        self.jobs: dict[str, JobQueued] = {}
        self.cancelled: dict[str, None] = {}
        self.nodes: dict[str, NodePublished] = {}
        self.quotas: dict[tuple[str, str], MarketQuota] = {}
        self._ended: dict[int, int] = {}
        self._position = 0

    def outputs(self, step: int) -> list[Output]:
        """Return what the outside writes before barrier ``step``."""
        if step == 0:
            return [*accounts(), *self._all_nodes(), *self._market(step), *self._jobs(step, 4)]
        ends = [
            tombstone(JobQueued, f"{event.team}/{event.job}", event.team)
            for event in decoded(self.world.events("job.status", self._ended))
            if isinstance(event, JobStatusChanged)
            and event.state in (JobState.FINISHED, JobState.CANCELLED)
        ]
        ended = {output.key for output in ends}
        for key in ended:
            del self.jobs[key]
        changes = self._cancel() if self.random.random() < 0.2 else []
        nodes = self._change_node() if self.random.random() < 0.1 else []
        return [
            *ends,
            *changes,
            *nodes,
            *self._market(step),
            *self._jobs(step, self.random.randrange(3)),
        ]

    def _all_nodes(self) -> list[Output]:
        for index in range(self.random.randint(2, 4)):
            name, kind = f"n{index}", ("a", "b")[index % 2]
            self.nodes[name] = NodePublished(
                node=name,
                type=kind,
                cell="c",
                devices=self.random.randint(1, 4),
                macc_per_device=1000,
                owner_pool=None,
                withheld_devices=(),
                state=NodeState.ACTIVE,
            )
        return [emit(node) for node in self.nodes.values()]

    def _change_node(self) -> list[Output]:
        name = self.random.choice(sorted(self.nodes))
        withheld = tuple(d for d in range(self.nodes[name].devices) if self.random.random() < 0.3)
        state = self.random.choice(list(NodeState))
        changed = self.nodes[name].model_copy(update={"withheld_devices": withheld, "state": state})
        self.nodes[name] = changed
        return [emit(changed)]

    def _market(self, step: int) -> list[Output]:
        found: list[Output] = []
        now_ms = START_MS + step * MINUTE_MS
        prices: dict[tuple[str, str], int] = {}
        for market in ("a", "b"):
            if step and self.random.random() < 0.3:
                continue
            price = self.random.choice((0, 100_003, 200_001, 700_000))
            pools = tuple(
                PoolPrice(
                    pool=pool,
                    price_micro=price,
                    weight_micro_per_hour=WEIGHTS[pool],
                    local_income_per_hour=3,
                )
                for pool in sorted(WEIGHTS)
            )
            for pool in WEIGHTS:
                prices[market, pool] = price
            found.append(
                emit(
                    PricePublished(
                        market=market,
                        cycle=step,
                        market_time_ms=now_ms,
                        reference_price_micro=price,
                        pools=pools,
                    )
                )
            )
        for team, pool in TEAMS.items():
            if step and self.random.random() < 0.5:
                continue
            quotas = []
            for market in ("a", "b"):
                quota = MarketQuota(
                    market=market,
                    allocated_macc=1000 * self.random.choice((0, 0, 1, 2, 4)),
                    opportunistic_macc=1000 * self.random.choice((0, 0, 1, 3)),
                    price_micro=prices.get((market, pool), 100_003),
                )
                self.quotas[team, market] = quota
                quotas.append(quota)
            found.append(
                emit(
                    QuotaGranted(
                        team=team,
                        pool=pool,
                        cycle=step,
                        market_time_ms=now_ms,
                        markets=tuple(quotas),
                    )
                )
            )
        return found

    def _jobs(self, step: int, count: int) -> list[Output]:
        found = []
        for _ in range(count):
            team = self.random.choice(sorted(TEAMS))
            self._position += 1
            job = JobQueued(
                team=team,
                pool=TEAMS[team],
                job=f"j{self._position}",
                types=self.random.choice((("a",), ("b",), ("a", "b"), ("b", "zz", "a"))),
                size_macc=1000 * self.random.choice((1, 1, 2, 3, 5)),
                gang=True,
                limit_micro=self.random.choice((None, None, 0, 150_000, 300_000)),
                expected_run_ms=self.random.choice((None, 0, 1, 59_999, 60_000, 60_001, 345_678)),
                minimum_run_ms=self.random.choice((0, 120_000)),
                drainability=Drainability.RESTART,
                deadline_ms=None,
                submitted_ms=max(0, START_MS + step * MINUTE_MS - self.random.randrange(60_000)),
                position=self._position,
                revision=0,
                cancelled=False,
            )
            self.jobs[job.record_key()] = job
            found.append(emit(job))
        return found

    def _cancel(self) -> list[Output]:
        living = sorted(key for key in self.jobs if key not in self.cancelled)
        if not living:
            return []
        key = self.random.choice(living)
        self.cancelled[key] = None
        self.jobs[key] = self.jobs[key].model_copy(update={"cancelled": True})
        return [emit(self.jobs[key])]


@dataclass
class Held:
    """A lease as the auditor sees it."""

    team: str
    job: str
    market: str
    work_class: WorkClass
    parts: dict[str, LeaseGranted] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    leaving: bool = False


class Auditor:
    """Follows the log step by step and refuses what must never be."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self.world = world
        self.scenario = scenario
        self.leases: dict[str, Held] = {}
        self.owner: dict[tuple[str, int], str] = {}
        self.finished: dict[str, int] = defaultdict(int)
        self.run: dict[str, int | None] = {}
        self.left: dict[str, int | None] = {}
        self.usage: dict[str, list[UsageMetered]] = defaultdict(list)
        self._seen: dict[str, dict[int, int]] = defaultdict(dict)
        self._freed: list[LeaseStatusChanged] = []

    def after_step(self) -> None:
        for job in self.scenario.jobs.values():
            self.run.setdefault(job.record_key(), job.expected_run_ms)
        # Placement saw what the fleet wrote in the step before.
        for status in self._freed:
            self.take_freed(status)
        self.take_leases(self._new("leases"))
        for event in self._new("vacate"):
            assert isinstance(event, VacateRequested)
            assert not self.leases[event.lease].leaving, "a lease is asked to leave once"
            self.leases[event.lease].leaving = True
        for event in self._new("job.status"):
            assert isinstance(event, JobStatusChanged)
            self.finished[event.record_key()] += event.state is JobState.FINISHED
        self.check_quota()
        self._freed = [
            event
            for event in self._new("lease.status")
            if isinstance(event, LeaseStatusChanged) and event.state is LeaseState.FREED
        ]
        for event in self._new("usage"):
            assert isinstance(event, UsageMetered)
            self.usage[f"{event.team}/{event.job}"].append(event)

    def take_freed(self, status: LeaseStatusChanged) -> None:
        held = self.leases[status.lease]
        held.open.remove(status.node)
        for device in held.parts[status.node].devices:
            del self.owner[status.node, device]
        self.left[f"{status.team}/{status.job}"] = status.remaining_run_ms
        if not held.open:
            del self.leases[status.lease]

    def take_leases(self, events: list[Event]) -> None:
        fresh: dict[str, int] = defaultdict(int)
        for event in events:
            assert isinstance(event, LeaseGranted)
            held = self.leases.get(event.lease)
            if held is not None and event.node in held.parts:
                held.work_class = event.work_class
                continue
            if held is None:
                held = Held(event.team, event.job, event.market, event.work_class)
                self.leases[event.lease] = held
            fresh[event.lease] += event.size_macc
            held.parts[event.node] = event
            held.open.add(event.node)
            node = self.scenario.nodes[event.node]
            assert node.type == event.market
            assert node.state is NodeState.ACTIVE
            for device in event.devices:
                assert (event.node, device) not in self.owner, "a device is in two leases"
                assert device < node.devices
                assert device not in node.withheld_devices
                self.owner[event.node, device] = event.lease
        for lease, size_macc in fresh.items():
            held = self.leases[lease]
            assert len(held.parts) == next(iter(held.parts.values())).parts, "half a gang"
            assert size_macc == self.scenario.jobs[f"{held.team}/{held.job}"].size_macc

    def check_quota(self) -> None:
        used: dict[tuple[str, str, WorkClass], int] = defaultdict(int)
        for held in self.leases.values():
            if not held.leaving:
                size = sum(part.size_macc for part in held.parts.values())
                used[held.team, held.market, held.work_class] += size
        for (team, market, work_class), size in used.items():
            quota = self.scenario.quotas[team, market]
            bound = (
                quota.allocated_macc if work_class is WorkClass.MARKET else quota.opportunistic_macc
            )
            assert size <= bound, f"{team} runs {size} {work_class} in {market}, quota {bound}"

    def check_usage(self) -> None:
        """Sequences are dense; a job's time is metered once, and none of it is lost."""
        sources: dict[str, list[int]] = defaultdict(list)
        for key, metered in self.usage.items():
            by_lease: dict[str, dict[str, list[tuple[int, int]]]] = defaultdict(
                lambda: defaultdict(list)
            )
            for usage in metered:
                sources[f"{usage.lease}/{usage.node}/{usage.attempt}"].append(usage.seq)
                by_lease[usage.lease][usage.node].append((usage.start_ms, usage.end_ms))
                assert usage.end_ms - usage.start_ms <= MINUTE_MS
                assert usage.start_ms // 300_000 == (usage.end_ms - 1) // 300_000
            intervals = []
            for nodes in by_lease.values():
                first, *others = nodes.values()
                assert all(other == first for other in others)
                intervals += first
            intervals.sort()
            for before, after in pairwise(intervals):
                assert before[1] <= after[0], f"{key} is metered twice"
            expected = self.run[key]
            running = any(f"{h.team}/{h.job}" == key for h in self.leases.values())
            if expected is not None and not running:
                total = sum(end - start for start, end in intervals)
                left = self.left[key]
                assert left is not None
                assert total + left == expected, f"{key} ran {total}, {left} left of {expected}"
        for source, numbers in sources.items():
            assert sorted(numbers) == list(range(len(numbers))), f"{source} has holes"
        for key, count in self.finished.items():
            assert count <= 1, f"{key} finished {count} times"
            assert not count or self.left[key] == 0

    def _new(self, topic: str) -> list[Event]:
        return decoded(self.world.events(topic, self._seen[topic]))


def play(
    seed: int, steps: int, restart: Restart = lambda _step, _name: False, compact_at: int = -1
) -> tuple[World, Auditor]:
    world = World(restart)
    scenario = Scenario(seed, world)
    auditor = Auditor(world, scenario)
    for step in range(steps):
        world.tick(scenario.outputs(step))
        auditor.after_step()
        if step == compact_at:
            world.compact()
    return world, auditor


def content(world: World) -> dict[tuple[str, int], list[Entry]]:
    return dict(world.log.entries)


class Chain:
    """What the tests of the chain need."""

    teams = TEAMS
    incomes = INCOMES
    weights = WEIGHTS
    start_ms = START_MS
    play = staticmethod(play)
    content = staticmethod(content)
    decoded = staticmethod(decoded)


@pytest.fixture(scope="session")
def chain() -> type[Chain]:
    return Chain
