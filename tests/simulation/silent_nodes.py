"""Capacity and placement on one log in memory; agents are heartbeats and words about leases."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import walras_capacity.settings
import walras_capacity.wiring
import walras_placement.settings
import walras_placement.wiring
from walras_contracts.capacity import NodeHealthReported, NodeObserved, SupplyPublished
from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.drains import VacateRequested
from walras_contracts.event import Event
from walras_contracts.market import MarketQuota, QuotaGranted
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.work import (
    JobStatusChanged,
    LeaseGranted,
    LeaseOutcome,
    LeaseState,
    LeaseStatusChanged,
)
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import Barrier, emit

START_MS = 1_728_000_000_000
INTERVAL_MS = 5_000
CYCLE_MS = 30_000
TIMEOUT_MS = 90_000
DRIVEN = (
    *("inventory", "node.health", "accounts", "quotas", "queue", "lease.status", "drain.status"),
    *("drain.requests", "budgets", "drain.scores"),
)
WATCHED = ("supply", "job.status", "leases", "vacate")


@dataclass
class Floor:
    """Two services, and what they wrote last of each supply, job and lease."""

    log: MemoryLog = field(default_factory=lambda: MemoryLog(load_topics()))
    number: int = -1
    now_ms: int = START_MS
    supply: dict[str, SupplyPublished] = field(default_factory=dict)
    statuses: dict[str, JobStatusChanged] = field(default_factory=dict)
    leases: dict[str, LeaseGranted] = field(default_factory=dict)
    vacates: list[VacateRequested] = field(default_factory=list)
    _read: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shared: dict[str, Any] = {"kafka_bootstrap": "memory:0"}
        self._specs = (
            walras_capacity.wiring.build(walras_capacity.settings.Settings(**shared)),
            walras_placement.wiring.build(walras_placement.settings.Settings(**shared)),
        )
        self._runners = [MemoryRunner(spec, self.log) for spec in self._specs]

    def crash(self, which: int) -> None:
        """Lose capacity (0) or placement (1), and start it again."""
        self._runners[which] = MemoryRunner(self._specs[which], self.log)

    def state(self, job: str) -> str:
        """Return where a job stands."""
        return self.statuses[job].state.value

    def step(self, given: Iterable[Event] = (), *, after_ms: int = INTERVAL_MS) -> None:
        """Write what happened since the last barrier, and a barrier; let both services step."""
        self.number += 1
        self.now_ms += after_ms
        events = list(given)
        ids = [f"{self.number}/{place}" for place in range(len(events))]
        self.log.append([emit(event) for event in events], source="floor", event_ids=ids)
        for topic in DRIVEN:
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, Barrier(self.number, self.now_ms))
        for runner in self._runners:
            assert runner.advance() == 1
        self._watch()

    def _watch(self) -> None:
        for topic in WATCHED:
            for partition in self.log.partitions(topic):
                start = self._read.get((topic, partition), 0)
                for entry in self.log.read(topic, partition, start):
                    self._read[topic, partition] = entry.offset + 1
                    if entry.barrier is not None:
                        continue
                    if entry.payload is None:
                        self.leases.pop(entry.key, None)
                        continue
                    self._take(entry.key, decode_inner(entry.type, entry.payload))

    def _take(self, key: str, event: Event) -> None:
        match event:
            case SupplyPublished():
                self.supply[key] = event
            case JobStatusChanged():
                self.statuses[event.job] = event
            case LeaseGranted():
                self.leases[key] = event
            case VacateRequested():
                self.vacates.append(event)
            case _:
                raise AssertionError(key)


def node(name: str, devices: int = 1, *, fenced_at_ms: int | None = None) -> NodeObserved:
    return NodeObserved(
        node=name,
        type="a",
        cell="c",
        devices=devices,
        owner_pool=None,
        urgent=True,
        observed_ms=START_MS if fenced_at_ms is None else fenced_at_ms,
        fenced=fenced_at_ms is not None,
    )


def heartbeat(name: str, now_ms: int) -> NodeHealthReported:
    return NodeHealthReported(node=name, unhealthy_devices=(), reported_ms=now_ms)


def job(name: str, position: int, devices: int = 1) -> JobQueued:
    return JobQueued(
        team="t",
        pool="p",
        job=name,
        types=("a",),
        size_macc=1000 * devices,
        gang=True,
        limit_micro=None,
        expected_run_ms=None,
        minimum_run_ms=0,
        drainability=Drainability.RESTART,
        deadline_ms=None,
        submitted_ms=START_MS,
        position=position,
        revision=0,
        cancelled=False,
    )


def quota(devices: int) -> QuotaGranted:
    return QuotaGranted(
        team="t",
        pool="p",
        cycle=0,
        market_time_ms=START_MS,
        markets=(
            MarketQuota(
                market="a", allocated_macc=1000 * devices, opportunistic_macc=0, price_micro=5
            ),
        ),
    )


def said(
    lease: LeaseGranted, state: LeaseState, now_ms: int, outcome: LeaseOutcome = LeaseOutcome.NONE
) -> LeaseStatusChanged:
    return LeaseStatusChanged(
        lease=lease.lease,
        node=lease.node,
        team=lease.team,
        job=lease.job,
        state=state,
        outcome=outcome,
        remaining_run_ms=None,
        at_ms=now_ms,
    )
