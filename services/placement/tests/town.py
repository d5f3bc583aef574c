"""Random histories for placement alone: nodes, quotas, jobs, agents, drains, budgets, policies.

What a step is given follows from the seed and from what placement wrote, so two towns of one seed
go the same way as long as placement decides the same.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from walras_contracts.accounts import (
    AccountsChanged,
    Document,
    MarketDocument,
    PlatformDocument,
    PoolDocument,
    QueueOrder,
    Rounding,
    TeamAccount,
)
from walras_contracts.capacity import NodePublished, NodeState
from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.drains import (
    DrainabilityScored,
    DrainRequested,
    VacateReason,
    VacateRequested,
    VacateWithdrawn,
)
from walras_contracts.market import MarketQuota, QuotaGranted
from walras_contracts.money import BudgetPublished, StopReason
from walras_contracts.work import (
    DrainState,
    DrainStatusChanged,
    LeaseGranted,
    LeaseOutcome,
    LeaseState,
    LeaseStatusChanged,
)
from walras_runtime.records import Output, emit, tombstone

KINDS = ("a", "b")
TEAMS = ("t1", "t2", "t3", "t4")
NODES = 10


@dataclass
class Part:
    """What an agent knows of a part of a lease."""

    granted: LeaseGranted
    said: str = ""
    asked: bool = False
    drain: str = ""
    may_go_back: bool = False


@dataclass
class Town:
    """The world around one placement.

    Parameters
    ----------
    bench
        The service on a log.
    seed
        Of all draws.
    domains
        In how many domains the nodes of a cell are.
    """

    bench: Any
    seed: int
    domains: int = 2
    parts: dict[str, Part] = field(default_factory=dict)
    nodes: dict[str, NodePublished] = field(default_factory=dict)
    jobs: dict[str, JobQueued] = field(default_factory=dict)
    version: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def run(self, steps: int) -> None:
        """Live through some steps."""
        for number in range(steps):
            self.step(first=number == 0)

    def step(self, *, first: bool = False) -> None:
        """Live through one step."""
        draw, given = self.draw, []
        if first:
            given += [self._node(f"n{number}") for number in range(NODES)]
        for happens, chance in (
            (self._some_node, 0.15),
            (self._some_quota, 0.7),
            (self._some_quota, 0.4),
            (self._some_job, 0.8),
            (self._some_job, 0.8),
            (self._change_job, 0.3),
            (self._some_budget, 0.05),
            (self._some_policy, 0.08),
            (self._some_score, 0.1),
            (self._some_request, 0.08),
        ):
            if draw.random() < chance:
                given += happens()
        for key in sorted(self.parts):
            given += self._agent(key)
        self._take(self.bench.step(*given))

    def _take(self, written: list[Any]) -> None:
        for event in written:
            if isinstance(event, LeaseGranted):
                key = event.record_key()
                self.parts.setdefault(key, Part(event)).granted = event
            elif isinstance(event, VacateRequested):
                for part in self._parts_of(event.lease):
                    part.asked, part.may_go_back = True, False
            elif isinstance(event, VacateWithdrawn):
                for part in self._parts_of(event.lease):
                    part.asked, part.may_go_back = False, bool(part.drain)
            elif isinstance(event, Output) and event.topic == "leases":
                self.parts.pop(event.key, None)

    def _parts_of(self, lease: str) -> list[Part]:
        return [part for part in self.parts.values() if part.granted.lease == lease]

    def _agent(self, key: str) -> list[Output]:  # noqa: PLR0911 - one for each thing to do
        """Let the agent of a part do something, if its node can be reached."""
        part, draw = self.parts[key], self.draw
        node = self.nodes.get(part.granted.node)
        if node is not None and node.lost:
            return []
        luck = draw.random()
        if not part.said:
            state = LeaseState.ACCEPTED if part.granted.parts > 1 else LeaseState.RUNNING
            if luck < 0.06:
                return self._free(part, LeaseOutcome.START_FAILED)
            if luck < 0.5:
                part.said = state
                return [self._status(part, state)]
            return []
        if part.asked or part.may_go_back:
            return self._drain(part, luck)
        if part.said == LeaseState.ACCEPTED and part.granted.may_start and luck < 0.5:
            part.said = LeaseState.RUNNING
            return [self._status(part, LeaseState.RUNNING)]
        if luck < 0.05:
            return self._free(part, draw.choice(list(LeaseOutcome)[1:]))
        if luck > 0.995:
            return [self._status(part, LeaseState.STUCK)]
        return []

    def _drain(self, part: Part, luck: float) -> list[Output]:
        if part.may_go_back:
            part.may_go_back = False
            if luck < 0.7:
                part.drain = ""
                return [self._drained(part, DrainState.CANCELLED)]
            part.asked = True
            return [self._drained(part, DrainState.TERMINATING, "cancel_rejected")]
        if luck < 0.3:
            part.drain = DrainState.WARNED
            return [self._drained(part, DrainState.WARNED)]
        if luck < 0.6:
            return self._free(part, LeaseOutcome.VACATED)
        if luck < 0.63:
            return [self._drained(part, DrainState.FAILED, "device_not_freed")]
        return []

    def _free(self, part: Part, outcome: LeaseOutcome) -> list[Output]:
        return [self._status(part, LeaseState.FREED, outcome)]

    def _status(
        self, part: Part, state: LeaseState, outcome: LeaseOutcome = LeaseOutcome.NONE
    ) -> Output:
        lease = part.granted
        return emit(
            LeaseStatusChanged(
                lease=lease.lease,
                node=lease.node,
                team=lease.team,
                job=lease.job,
                state=state,
                outcome=outcome,
                remaining_run_ms=0 if outcome is LeaseOutcome.FINISHED else 300_000,
                at_ms=self.bench.now_ms + 1,
            )
        )

    def _drained(self, part: Part, state: DrainState, outcome: str = "") -> Output:
        lease = part.granted
        return emit(
            DrainStatusChanged(
                session=f"s-{lease.lease[:40]}",
                lease=lease.lease,
                node=lease.node,
                team=lease.team,
                pool=lease.pool,
                job=lease.job,
                state=state,
                outcome=outcome,
                warned_ms=self.bench.now_ms,
                at_ms=self.bench.now_ms + 1,
            )
        )

    def _some_node(self) -> list[Output]:
        draw = self.draw
        name = f"n{draw.randrange(NODES)}"
        node = self.nodes[name]
        luck = draw.random()
        if luck < 0.3:
            changed = node.model_copy(update={"lost": not node.lost})
        elif luck < 0.45:
            changed = node.model_copy(update={"lost": False, "fenced_ms": self.bench.now_ms})
        elif luck < 0.8:
            state = draw.choice((NodeState.ACTIVE, NodeState.ACTIVE, *NodeState))
            changed = node.model_copy(update={"state": state})
        else:
            withheld = tuple(d for d in range(node.devices) if draw.random() < 0.1)
            changed = node.model_copy(update={"withheld_devices": withheld})
        self.nodes[name] = changed
        return [emit(changed)]

    def _node(self, name: str) -> Output:
        number = int(name[1:])
        # One node has devices of another size.
        macc = 500 if number == NODES - 1 else 1000
        self.nodes[name] = NodePublished(
            node=name,
            type=KINDS[number % len(KINDS)],
            cell="c1" if number < NODES - 2 else "c2",
            devices=self.draw.randint(2, 6),
            macc_per_device=macc,
            owner_pool=None,
            withheld_devices=(),
            state=NodeState.ACTIVE,
            domain=f"d{number // 2 % self.domains}" if self.domains else None,
        )
        return emit(self.nodes[name])

    def _some_quota(self) -> list[Output]:
        draw = self.draw
        team = draw.choice(TEAMS)
        markets = tuple(
            MarketQuota(
                market=kind,
                allocated_macc=draw.choice((0, 1000, 2000, 4000, 7000, 9000)),
                opportunistic_macc=draw.choice((0, 0, 0, 1000, 3000)),
                price_micro=draw.choice((0, 5, 5, 10, 20, None)),
            )
            for kind in KINDS
            if draw.random() < 0.8
        )
        return [
            emit(
                QuotaGranted(
                    team=team,
                    pool="p",
                    cycle=0,
                    market_time_ms=self.bench.now_ms,
                    markets=markets,
                )
            )
        ]

    def _some_job(self) -> list[Output]:
        draw = self.draw
        if len(self.jobs) > 60:
            return []
        number = len(self.jobs)
        job = JobQueued(
            team=draw.choice(TEAMS),
            pool="p",
            job=f"j{number:03d}",
            types=draw.choice((("a",), ("b",), ("a", "b"), ("b", "a"), ("zz", "a"))),
            size_macc=draw.choice((1, 500, 1000, 1000, 2000, 3000, 5000, 8000, 13_000)),
            gang=draw.random() < 0.8,
            limit_micro=draw.choice((None, None, 0, 7, 15)),
            expected_run_ms=600_000,
            minimum_run_ms=draw.choice((0, 120_000, 600_000)),
            drainability=draw.choice(list(Drainability)),
            deadline_ms=draw.choice((None, None, self.bench.now_ms + 600_000)),
            submitted_ms=self.bench.now_ms,
            position=number,
            revision=0,
            cancelled=False,
        )
        self.jobs[f"{job.team}/{job.job}"] = job
        return [emit(job)]

    def _change_job(self) -> list[Output]:
        draw = self.draw
        if not self.jobs:
            return []
        key = draw.choice(sorted(self.jobs))
        job = self.jobs[key]
        luck = draw.random()
        if luck < 0.3:
            del self.jobs[key]
            return [tombstone(JobQueued, key, job.team)]
        update: dict[str, object] = {"cancelled": True}
        if luck < 0.6 and not job.cancelled:
            update = {"limit_micro": draw.choice((None, 3, 15)), "revision": job.revision + 1}
        elif luck < 0.7:
            update = {"pool": draw.choice(("p", "q"))}
        self.jobs[key] = job.model_copy(update=update)
        return [emit(self.jobs[key])]

    def _some_budget(self) -> list[Output]:
        exhausted = self.draw.random() < 0.5
        return [
            emit(
                BudgetPublished(
                    team=self.draw.choice(TEAMS),
                    pool="p",
                    boundary_ms=0,
                    at_ms=self.bench.now_ms,
                    exhausted=exhausted,
                    reason=StopReason.HOUR if exhausted else StopReason.NONE,
                    budgets=(),
                )
            )
        ]

    def _some_policy(self) -> list[Output]:
        draw = self.draw
        self.version += 1
        document: Document = PlatformDocument(retention_gap_ppm=draw.choice((0, 100_000, 900_000)))
        luck = draw.random()
        if luck < 0.6:
            kind = draw.choice(KINDS)
            document = MarketDocument(market=kind, rounding=draw.choice(list(Rounding)))
        elif luck < 0.8:
            document = PoolDocument(
                pool="p",
                weight_micro_per_hour=1,
                teams=tuple(
                    TeamAccount(
                        team=team,
                        income_local_per_hour=1,
                        queue_order=draw.choice(list(QueueOrder)),
                    )
                    for team in TEAMS
                ),
            )
        effective_ms = self.bench.now_ms + draw.choice((0, 180_000))
        return [
            emit(
                AccountsChanged(version=self.version, effective_ms=effective_ms, document=document)
            )
        ]

    def _some_score(self) -> list[Output]:
        draw = self.draw
        if not self.jobs:
            return []
        job = self.jobs[draw.choice(sorted(self.jobs))]
        return [
            emit(
                DrainabilityScored(
                    team=job.team,
                    job=job.job,
                    score_ppm=draw.choice((0, 300_000, 1_000_000)),
                    warnings=1,
                    answered=1,
                    freed_after_ms=0,
                    scored_ms=self.bench.now_ms,
                )
            )
        ]

    def _some_request(self) -> list[Output]:
        draw = self.draw
        if not self.parts:
            return []
        lease = self.parts[draw.choice(sorted(self.parts))].granted
        return [
            emit(
                DrainRequested(
                    lease=lease.lease,
                    job=lease.job,
                    team=lease.team,
                    reason=draw.choice((VacateReason.MAINTENANCE, VacateReason.LOW_USE)),
                    cancel=draw.random() < 0.4,
                    requested_ms=self.bench.now_ms,
                )
            )
        ]
