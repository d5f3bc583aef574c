"""Placement alone on a log; jobs, quotas, nodes and freed leases are given by hand."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from walras_contracts.accounts import (
    AccountsChanged,
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
from walras_contracts.event import Event
from walras_contracts.market import MarketQuota, QuotaGranted
from walras_contracts.placing import PlacementMeasured
from walras_contracts.registry import decode_inner
from walras_contracts.runs import RunSpec
from walras_contracts.topics import load_topics
from walras_contracts.work import (
    DrainState,
    DrainStatusChanged,
    JobStatusChanged,
    LeaseGranted,
    LeaseOutcome,
    LeaseState,
    LeaseStatusChanged,
)
from walras_placement.budgets import ExhaustedTeams
from walras_placement.handlers import PlacementStage, Planner
from walras_placement.settings import Settings
from walras_placement.state import PlacementState
from walras_placement.wiring import build
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import Barrier, Output, emit

START_MS = 1_728_000_000
MINUTE_MS = 60_000
INPUTS = (
    *("accounts", "nodes", "quotas", "queue", "lease.status", "drain.status", "drain.requests"),
    *("budgets", "drain.scores"),
)
OUTPUTS = ("leases", "vacate", "job.status")


class Bench:
    """Placement on a log; jobs, quotas and freed leases are given by hand."""

    def __init__(
        self, *, crash: bool = False, planner: Planner | None = None, **settings: Any
    ) -> None:
        self.log = MemoryLog(load_topics())
        self.now_ms = START_MS
        self._crash = crash
        self._number = -1
        values = {"kafka_bootstrap": "none", "mode": "replay", **settings}
        self._spec = build(Settings(**values))
        if planner is not None:
            made = PlacementStage(Settings(**values).rules(), planner)
            self._spec = replace(self._spec, build=lambda _: made)
        self._runner = MemoryRunner(self._spec, self.log)
        self._read: dict[tuple[str, int], int] = {}
        self._positions: dict[str, int] = {}
        self.statuses: dict[str, JobStatusChanged] = {}
        self.leases: dict[str, dict[str, LeaseGranted]] = {}
        self.figures: dict[str, PlacementMeasured] = {}
        """The latest of each market."""

    def step(self, *given: Output) -> list[Event | Output]:
        """Do one step; return what was written, tombstones as outputs."""
        self._number += 1
        self.now_ms = START_MS + self._number * MINUTE_MS
        self.log.append(given)
        for topic in INPUTS:
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, Barrier(self._number, self.now_ms))
        if self._crash:
            self._runner = MemoryRunner(self._spec, self.log)
        assert self._runner.advance() == 1
        return self._written()

    @property
    def state(self) -> PlacementState:
        """What the stage knows."""
        assert isinstance(self._runner.stage, PlacementStage)
        return self._runner.stage.state

    def forget_exhausted(self) -> None:
        """Lose when exhausted teams were told, for a test that must notice."""
        self.state.exhausted = ExhaustedTeams()

    def _written(self) -> list[Event | Output]:
        found: list[Event | Output] = []
        for topic in (*OUTPUTS, PlacementMeasured.TOPIC):
            for partition in self.log.partitions(topic):
                start = self._read.get((topic, partition), 0)
                for entry in self.log.read(topic, partition, start):
                    self._read[topic, partition] = entry.offset + 1
                    if entry.barrier is not None:
                        continue
                    if entry.payload is None:
                        found.append(Output(topic, entry.key, "", entry.type, None))
                        continue
                    event = decode_inner(entry.type, entry.payload)
                    if isinstance(event, PlacementMeasured):
                        self.figures[event.market] = event
                        continue
                    found.append(event)
                    if isinstance(event, JobStatusChanged):
                        self.statuses[event.job] = event
                    elif isinstance(event, LeaseGranted):
                        self.leases.setdefault(event.job, {})[event.node] = event
        return found

    def job(
        self,
        name: str,
        size: int,
        *,
        team: str = "t1",
        types: Sequence[str] = ("a",),
        limit: int | None = None,
        cancelled: bool = False,
        minimum_run_ms: int = 0,
        pool: str = "p",
        size_macc: int | None = None,
        gang: bool = True,
        deadline_minute: int | None = None,
        drainability: Drainability = Drainability.RESTART,
        run: RunSpec | None = None,
        submitted_minute: int = 0,
    ) -> Output:
        deadline_ms = None
        if deadline_minute is not None:
            deadline_ms = START_MS + deadline_minute * MINUTE_MS
        position = self._positions.setdefault(name, len(self._positions))
        return emit(
            JobQueued(
                team=team,
                pool=pool,
                job=name,
                types=tuple(types),
                size_macc=size * 1000 if size_macc is None else size_macc,
                gang=gang,
                limit_micro=limit,
                expected_run_ms=600_000,
                minimum_run_ms=minimum_run_ms,
                drainability=drainability,
                deadline_ms=deadline_ms,
                submitted_ms=START_MS + submitted_minute * MINUTE_MS,
                position=position,
                revision=0,
                cancelled=cancelled,
                run=run,
            )
        )

    def freed(self, name: str, outcome: str = "finished", left_ms: int = 0) -> list[Output]:
        """Return that the agents of all parts freed their devices."""
        nodes = list(self.leases[name])
        said = [self.said(name, "freed", node, outcome, left_ms) for node in nodes]
        del self.leases[name]
        return said

    def said(
        self,
        name: str,
        state: str,
        node: str = "n1",
        outcome: str = "",
        left_ms: int | None = None,
        *,
        lease: LeaseGranted | None = None,
        exit_code: int | None = None,
    ) -> Output:
        """Return what the agent of a part says."""
        part = lease or self.leases[name][node]
        return emit(
            LeaseStatusChanged(
                lease=part.lease,
                node=part.node,
                team=part.team,
                job=part.job,
                state=LeaseState(state),
                outcome=LeaseOutcome(outcome),
                remaining_run_ms=left_ms,
                at_ms=self.now_ms + MINUTE_MS,
                exit_code=exit_code,
            )
        )

    def drained(self, name: str, state: DrainState, node: str = "n1", outcome: str = "") -> Output:
        """Return how far the drain of a part has come."""
        part = self.leases[name][node]
        return emit(
            DrainStatusChanged(
                session="s",
                lease=part.lease,
                node=node,
                team=part.team,
                pool=part.pool,
                job=name,
                state=state,
                outcome=outcome,
                warned_ms=self.now_ms,
                at_ms=self.now_ms + MINUTE_MS,
            )
        )

    def request(self, name: str, reason: VacateReason, *, cancel: bool = False) -> Output:
        """Return what the drain service asks for; placement sees it one step later."""
        part = next(iter(self.leases[name].values()))
        return emit(
            DrainRequested(
                lease=part.lease,
                job=name,
                team=part.team,
                reason=reason,
                cancel=cancel,
                requested_ms=self.now_ms,
            )
        )

    def states(self) -> dict[str, str]:
        return {name: status.state.value for name, status in sorted(self.statuses.items())}

    def reasons(self) -> dict[str, str]:
        return {name: status.reason for name, status in sorted(self.statuses.items())}


def node(
    name: str,
    devices: int,
    kind: str = "a",
    state: NodeState = NodeState.ACTIVE,
    macc_per_device: int = 1000,
    **more: Any,
) -> Output:
    return emit(
        NodePublished(
            **{
                "node": name,
                "type": kind,
                "cell": "c",
                "devices": devices,
                "macc_per_device": macc_per_device,
                "owner_pool": None,
                "withheld_devices": (),
                "state": state,
                **more,
            }
        )
    )


def quota(team: str, **markets: tuple[int, int, int]) -> Output:
    """Return a team's quota: per market bought and opportunistic devices, and the price."""
    return emit(
        QuotaGranted(
            team=team,
            pool="p",
            cycle=0,
            market_time_ms=START_MS,
            markets=tuple(
                MarketQuota(
                    market=market,
                    allocated_macc=bought * 1000,
                    opportunistic_macc=opportunistic * 1000,
                    price_micro=price,
                )
                for market, (bought, opportunistic, price) in sorted(markets.items())
            ),
        )
    )


def vacates(written: Iterable[Event | Output]) -> dict[str, str]:
    return {e.job: e.reason for e in written if isinstance(e, VacateRequested)}


def withdrawn(written: Iterable[Event | Output]) -> list[str]:
    return [e.job for e in written if isinstance(e, VacateWithdrawn)]


def granted(written: Iterable[Event | Output]) -> list[str]:
    return [e.job for e in written if isinstance(e, LeaseGranted)]


def gap(version: int, minute: int, gap_ppm: int) -> Output:
    document = PlatformDocument(retention_gap_ppm=gap_ppm)
    effective_ms = START_MS + minute * MINUTE_MS
    return emit(AccountsChanged(version=version, effective_ms=effective_ms, document=document))


def rounding(market: str, policy: Rounding, *, version: int = 1) -> Output:
    document = MarketDocument(market=market, rounding=policy)
    return emit(AccountsChanged(version=version, effective_ms=START_MS, document=document))


def queue_order(team: str, order: QueueOrder, *, version: int = 1, minute: int = 0) -> Output:
    account = TeamAccount(team=team, income_local_per_hour=1, queue_order=order)
    document = PoolDocument(pool="p", weight_micro_per_hour=1, teams=(account,))
    effective_ms = START_MS + minute * MINUTE_MS
    return emit(AccountsChanged(version=version, effective_ms=effective_ms, document=document))


def score(job: str, score_ppm: int, team: str = "t1") -> Output:
    """Return a drainability score; placement sees it one step later."""
    return emit(
        DrainabilityScored(
            team=team,
            job=job,
            score_ppm=score_ppm,
            warnings=1,
            answered=1,
            freed_after_ms=1,
            scored_ms=START_MS,
        )
    )


class Kit:
    """What the tests of this folder share."""

    bench = Bench
    node = staticmethod(node)
    quota = staticmethod(quota)
    gap = staticmethod(gap)
    rounding = staticmethod(rounding)
    queue_order = staticmethod(queue_order)
    score = staticmethod(score)
    vacates = staticmethod(vacates)
    withdrawn = staticmethod(withdrawn)
    granted = staticmethod(granted)


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit
