"""The simulated fleet on a log in memory; grants and commands are given by hand."""

from typing import Any

from services.node_agent.tests.lives import command
from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommand
from walras_contracts.event import Event
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.work import (
    DrainStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
    UsageMetered,
    WorkClass,
)
from walras_node_agent.settings import Settings
from walras_node_agent.wiring import build
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import Barrier, Output, emit

START_MS = 1_728_000_000
MINUTE_MS = 60_000


class Bench:
    """The fleet, step by step; with ``crash`` it is lost and restored before every step."""

    def __init__(
        self, *, interval_ms: int = MINUTE_MS, crash: bool = False, **settings: Any
    ) -> None:
        self.log = MemoryLog(load_topics())
        given = Settings(kafka_bootstrap="none", interval_ms=interval_ms, **settings)
        self._spec = build(given)
        self._runner = MemoryRunner(self._spec, self.log)
        self._crash = crash
        self._number = -1
        self._read: dict[tuple[str, int], int] = {}
        self.usage: list[UsageMetered] = []
        self.statuses: list[LeaseStatusChanged] = []
        self.drains: list[DrainStatusChanged] = []

    def step(self, at_ms: int, *given: Output) -> list[Event]:
        """Do a step at ``at_ms`` after the start; return its events."""
        self._number += 1
        self.log.append(given)
        for topic in ("leases", "drain.commands"):
            for partition in self.log.partitions(topic):
                self.log.append_barrier(topic, partition, Barrier(self._number, START_MS + at_ms))
        if self._crash:
            self._runner = MemoryRunner(self._spec, self.log)
        assert self._runner.advance() == 1
        found: list[Event] = []
        for topic in ("lease.status", "drain.status", "usage"):
            for partition in self.log.partitions(topic):
                for entry in self.log.read(topic, partition, self._read.get((topic, partition), 0)):
                    self._read[topic, partition] = entry.offset + 1
                    assert entry.barrier is None, "barriers here are written by the outside"
                    if entry.payload is not None:
                        found.append(decode_inner(entry.type, entry.payload))
        self.usage += [e for e in found if isinstance(e, UsageMetered)]
        self.statuses += [e for e in found if isinstance(e, LeaseStatusChanged)]
        self.drains += [e for e in found if isinstance(e, DrainStatusChanged)]
        return found

    def steps(self, *at_ms: int) -> None:
        """Do steps in which nothing is said."""
        for each in at_ms:
            self.step(each)

    def drained(self) -> list[tuple[str, int]]:
        """How the drains went: states and times, as told for the first node."""
        first = min((d.node for d in self.drains), default="")
        return [(d.state.value, d.at_ms - START_MS) for d in self.drains if d.node == first]

    def told(self) -> list[tuple[str, str, int, int | None]]:
        return [
            (s.state.value, s.outcome.value, s.at_ms - START_MS, s.remaining_run_ms)
            for s in self.statuses
        ]

    def metered(self, *, ran: bool = False) -> list[tuple[int, int, str, bool]]:
        """All use; or that in which something ran, without what is owed behind the end."""
        return [
            (u.start_ms - START_MS, u.end_ms - START_MS, u.work_class.value, u.billable)
            for u in sorted(self.usage, key=lambda u: u.start_ms)
            if u.running_ms or not ran
        ]

    def check_usage(self) -> None:
        """Check that the first node's usage has neither gap nor overlap, and dense numbers."""
        first = min((u.node for u in self.usage), default="")
        mine = sorted((u for u in self.usage if u.node == first), key=lambda u: u.seq)
        assert [u.seq for u in mine] == list(range(len(mine)))
        assert [u.start_ms for u in mine[1:]] == [u.end_ms for u in mine[:-1]]


def part(
    *,
    node: str = "n1",
    number: int = 0,
    parts: int = 1,
    run_ms: int | None = 90_000,
    work_class: WorkClass = WorkClass.MARKET,
    drainability: Drainability = Drainability.RESTART,
) -> LeaseGranted:
    return LeaseGranted(
        lease="l1",
        node=node,
        part=number,
        parts=parts,
        attempt=1,
        job="j1",
        team="t1",
        pool="p",
        market="a",
        work_class=work_class,
        devices=(0,),
        size_macc=1000,
        limit_micro=None,
        granted_ms=START_MS,
        remaining_run_ms=run_ms,
        drainability=drainability,
        may_start=parts == 1,
    )


def drain(
    at_ms: int,
    said: DrainCommand = DrainCommand.DRAIN,
    *,
    session: str = "s1",
    node: str = "n1",
    **told: Any,
) -> Output:
    said_at = command(said, session, node=node, at_ms=START_MS + at_ms)
    return emit(said_at.model_copy(update=told))
