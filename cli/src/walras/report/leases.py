"""Leases: how many began, how they ended, who was preempted why, and what work that cost."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from walras.report.records import LogRecord
from walras_contracts.demand import Drainability
from walras_contracts.drains import VacateReason, VacateRequested, VacateWithdrawn
from walras_contracts.work import LeaseOutcome, LeaseState

OF_ITS_TEAM = frozenset({VacateReason.CANCELLED.value, VacateReason.LEFT_QUEUE.value})
"""Reasons for which a job leaves because its own team took it back: no preemption."""
UNASKED = "not_asked"
_CHECKPOINT = Drainability.CHECKPOINT.value
_FINISHED = LeaseOutcome.FINISHED.value
_VACATED = LeaseOutcome.VACATED.value
_OPEN = "open"


@dataclass(slots=True)
class LeasePart:
    """A part of a lease on a node, as far as the log was read."""

    lease: str
    size_macc: int
    saves: bool
    """Whether its job declares that it checkpoints when it is warned."""
    left_at_grant_ms: int | None
    running_ms: int | None = None
    freed_ms: int | None = None
    left_ms: int | None = None
    outcome: str = ""

    def ran_macc_ms(self) -> int:
        """Return what it held from its start until it was freed."""
        if self.running_ms is None or self.freed_ms is None:
            return 0
        return self.size_macc * max(0, self.freed_ms - self.running_ms)

    def repeated_macc_ms(self) -> int:
        """Return what of it did not bring the job nearer to its end, as its agent says.

        Where nobody knows how long the job is, what is unsaved.
        """
        if self.left_at_grant_ms is None or self.left_ms is None:
            return self.unsaved_macc_ms()
        nearer_ms = max(0, self.left_at_grant_ms - self.left_ms)
        return max(0, self.ran_macc_ms() - self.size_macc * nearer_ms)

    def unsaved_macc_ms(self) -> int:
        """Return what of it is lost if only jobs that declare to checkpoint have saved."""
        return 0 if self.saves else self.ran_macc_ms()


@dataclass(slots=True)
class Lost:
    """What leases that ended in one way cost: work that is to be done again, in macc·ms."""

    leases: int = 0
    ran_macc_ms: int = 0
    repeated_macc_ms: int = 0
    unsaved_macc_ms: int = 0

    def add(self, parts: Iterable[LeasePart]) -> None:
        """Take the parts of a lease."""
        self.leases += 1
        for part in parts:
            self.ran_macc_ms += part.ran_macc_ms()
            self.repeated_macc_ms += part.repeated_macc_ms()
            self.unsaved_macc_ms += part.unsaved_macc_ms()

    def report(self) -> dict[str, int]:
        """Return it as a part of the report."""
        return {
            "leases": self.leases,
            "ran_macc_ms": self.ran_macc_ms,
            "repeated_macc_ms": self.repeated_macc_ms,
            "unsaved_macc_ms": self.unsaved_macc_ms,
        }


@dataclass(slots=True)
class LeaseBook:
    """Folds ``leases``, then ``vacate`` and ``lease.status``."""

    parts: dict[str, LeasePart] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    """Why each lease was last asked to leave; without those that may stay."""
    requests: Counter[str] = field(default_factory=Counter)
    withdrawn: int = 0

    def fold_grants(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``leases``; a part that is written again is the same one."""
        for record in records:
            if record.key in self.parts:
                continue
            body = record.body()
            self.parts[record.key] = LeasePart(
                body["lease"],
                body["size_macc"],
                body["drainability"] == _CHECKPOINT,
                body["remaining_run_ms"],
            )

    def fold_vacates(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``vacate``."""
        for record in records:
            if record.type == VacateRequested.TYPE:
                body = record.body()
                self.asked[body["lease"]] = body["reason"]
                self.requests[body["reason"]] += 1
            elif record.type == VacateWithdrawn.TYPE:
                self.asked.pop(record.body()["lease"], None)
                self.withdrawn += 1

    def fold_status(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``lease.status``."""
        for record in records:
            part = self.parts.get(record.key)
            if part is None:
                continue
            body = record.body()
            if body["state"] == LeaseState.RUNNING and part.running_ms is None:
                part.running_ms = body["at_ms"]
            elif body["state"] == LeaseState.FREED:
                part.freed_ms, part.left_ms = body["at_ms"], body["remaining_run_ms"]
                part.outcome = body["outcome"]

    def report(self) -> dict[str, Any]:
        """Return how leases began and ended, and what preemptions cost, by their reason."""
        leases: dict[str, list[LeasePart]] = {}
        for part in self.parts.values():
            leases.setdefault(part.lease, []).append(part)
        ends: Counter[str] = Counter()
        preempted: dict[str, Lost] = {}
        whole, failed = Lost(), Lost()
        for lease, parts in leases.items():
            outcome = _outcome(parts)
            ends[outcome] += 1
            if outcome == _VACATED:
                reason = self.asked.get(lease, UNASKED)
                preempted.setdefault(reason, Lost()).add(parts)
                if reason not in OF_ITS_TEAM:
                    whole.add(parts)
            elif outcome not in {_FINISHED, _OPEN}:
                failed.add(parts)
        return {
            "granted": len(leases),
            "started": sum(any(p.running_ms is not None for p in ps) for ps in leases.values()),
            "ended": dict(sorted(ends.items())),
            "asked_to_leave": dict(sorted(self.requests.items())),
            "allowed_to_stay": self.withdrawn,
            "preempted": whole.report(),
            "preempted_by_reason": _reports(preempted),
            "failed": failed.report(),
        }


def _outcome(parts: Iterable[LeasePart]) -> str:
    """Return how a lease ended: what is not freed is open, what was vacated in part was vacated."""
    outcomes = [part.outcome or _OPEN for part in parts]
    if _VACATED in outcomes:
        return _VACATED
    return next((o for o in outcomes if o != _FINISHED), _FINISHED)


def _reports(lost: Mapping[str, Lost]) -> dict[str, dict[str, int]]:
    return {reason: lost[reason].report() for reason in sorted(lost)}
