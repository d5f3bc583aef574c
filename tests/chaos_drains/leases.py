"""Leases over the steps of a history: whose they are, what is open, how silent nodes are."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.chaos_drains.history import Entry, History
from tests.chaos_drains.terms import HOLDS
from walras_contracts.capacity import NodeHealthReported
from walras_contracts.drains import VacateRequested, VacateWithdrawn
from walras_contracts.work import (
    JobStatusChanged,
    LeaseGranted,
    LeaseState,
    LeaseStatusChanged,
)

HOLE_INTERVALS: Final = 2
"""A longer time between two barriers is an interruption: silence is counted anew."""
Part = tuple[str, str]
"""Lease and node."""


class Silence:
    """How long each node has not been heard, in market time that flowed."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._health = history.by_step(NodeHealthReported.TOPIC)
        self._before_ms: int | None = None
        self.silent_ms: dict[str, int] = {}
        """By node, of those that were ever heard."""

    def advance(self, step: int) -> None:
        """Go on to a step."""
        now_ms = self._history.barriers.get(step)
        if now_ms is not None:
            before_ms = now_ms if self._before_ms is None else self._before_ms
            passed_ms, self._before_ms = now_ms - before_ms, now_ms
            is_hole = passed_ms > HOLE_INTERVALS * self._history.times.interval_ms
            for node, silent_ms in self.silent_ms.items():
                self.silent_ms[node] = 0 if is_hole else silent_ms + passed_ms
        for entry in self._health.get(step, ()):
            self.silent_ms[entry.key] = 0


@dataclass(slots=True)
class Lease:
    """A lease; ``parts`` by node, ``until`` is the record that says that its run is over."""

    lease: str
    job: str
    parts: dict[str, LeaseGranted] = field(default_factory=dict)
    vacate_asked: bool = False
    until: Entry | None = None


@dataclass(slots=True)
class Ledger:
    """What stands at the end of a step."""

    step: int = -1
    leases: dict[str, Lease] = field(default_factory=dict)
    of_job: dict[str, str] = field(default_factory=dict)
    """The lease that each job holds."""
    freed: set[Part] = field(default_factory=set)
    stuck: set[Part] = field(default_factory=set)
    lost: set[Part] = field(default_factory=set)
    """Parts whose node has been silent for the timeout while they were open."""
    granted: list[LeaseGranted] = field(default_factory=list)
    """In this step, for the first time."""
    ended: list[Lease] = field(default_factory=list)
    """Whose run ended in this step."""


def ledgers(history: History) -> Iterator[tuple[Ledger, Silence]]:
    """Yield what stands at the end of each step: the same two objects, as they go on.

    In a step, what agents said comes first, then what placement made of it.
    """
    ledger, silence = Ledger(), Silence(history)
    topics = (LeaseStatusChanged, LeaseGranted, VacateRequested, JobStatusChanged)
    by_step = [history.by_step(model.TOPIC) for model in topics]
    for step in history.steps():
        ledger.step, ledger.granted, ledger.ended = step, [], []
        silence.advance(step)
        _note_lost(ledger, silence, history.times.lease_timeout_ms)
        for entries in by_step:
            for entry in entries.get(step, ()):
                _take(ledger, entry)
        yield ledger, silence


def _note_lost(ledger: Ledger, silence: Silence, timeout_ms: int) -> None:
    for lease in ledger.leases.values():
        for node in lease.parts:
            part = lease.lease, node
            if part not in ledger.freed and silence.silent_ms.get(node, 0) >= timeout_ms:
                ledger.lost.add(part)


def _take(ledger: Ledger, entry: Entry) -> None:
    match entry.event:
        case LeaseStatusChanged() as status:
            if status.state is LeaseState.FREED:
                ledger.freed.add((status.lease, status.node))
            elif status.state is LeaseState.STUCK:
                ledger.stuck.add((status.lease, status.node))
        case LeaseGranted() as grant:
            job = f"{grant.team}/{grant.job}"
            lease = ledger.leases.setdefault(grant.lease, Lease(grant.lease, job))
            if grant.node not in lease.parts:
                ledger.granted.append(grant)
            lease.parts[grant.node] = grant
        case VacateRequested() | VacateWithdrawn() as asked:
            if asked.lease in ledger.leases:
                ledger.leases[asked.lease].vacate_asked = isinstance(asked, VacateRequested)
        case JobStatusChanged() as status:
            lease_id = status.lease if status.state in HOLDS else None
            _hold(ledger, entry, lease_id)
        case None if entry.key in ledger.of_job:
            # A tombstone of a job; those of leases have keys that no job has.
            _hold(ledger, entry, None)


def _hold(ledger: Ledger, entry: Entry, lease_id: str | None) -> None:
    before = ledger.of_job.pop(entry.key, None)
    if before is not None and before != lease_id:
        lease = ledger.leases.setdefault(before, Lease(before, entry.key))
        lease.until = entry
        ledger.ended.append(lease)
    if lease_id is not None:
        ledger.of_job[entry.key] = lease_id
