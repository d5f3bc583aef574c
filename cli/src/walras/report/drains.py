"""Drain sessions: how they ended, how long they took of what they had, what held them up."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from walras.report.records import LogRecord
from walras.report.series import percentiles, ratio_ppm
from walras_contracts.drains import DrainSessionChanged, SessionState
from walras_contracts.work import DrainState

BUDGET_WORDS = "disruption budget"
"""How the drain service begins what it says of a session that waits for its team's budget; of one
that waits for the distance between drains of a job it says something else."""
FORCED = "forced"
CANCEL_REJECTED = "cancel_rejected"
NEVER_BEGUN = "called_off"
OPEN = "open"
_ENDS = (SessionState.FREED, SessionState.FAILED, SessionState.CANCELLED)


@dataclass(slots=True)
class Session:
    """A session as it stands, as far as the log was read."""

    state: str
    outcome: str
    reason: str
    opened_ms: int
    commanded_ms: int | None
    deadline_ms: int | None
    changed_ms: int
    beyond_budget: bool
    by_budget: bool = False
    by_distance: bool = False

    def end(self) -> str:
        """Return how it ended; a failed one says why."""
        if self.state == SessionState.FAILED:
            return f"failed: {self.outcome}" if self.outcome else "failed"
        if self.state == SessionState.CANCELLED and self.commanded_ms is None:
            return NEVER_BEGUN
        return self.state if self.state in _ENDS else OPEN

    def waited_ms(self, end_ms: int) -> int:
        """Return how long it waited until it began, ended, or the window was over."""
        until_ms = self.commanded_ms
        if until_ms is None:
            until_ms = self.changed_ms if self.state in _ENDS else end_ms
        return max(0, until_ms - self.opened_ms)


@dataclass(slots=True)
class DrainBook:
    """Folds ``drain.status`` and ``drain.sessions``, in any order."""

    end_ms: int
    sessions: dict[str, Session] = field(default_factory=dict)
    freed_ms: dict[str, int] = field(default_factory=dict)
    """When the last part of each session was freed, as its agents say."""
    said: dict[str, set[str]] = field(default_factory=dict)
    """Sessions of which an agent said an outcome."""

    def fold_status(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``drain.status``."""
        for record in records:
            body = record.body()
            session = body["session"]
            if body["state"] == DrainState.FREED:
                self.freed_ms[session] = max(self.freed_ms.get(session, 0), body["at_ms"])
            if body["outcome"]:
                self.said.setdefault(body["outcome"], set()).add(session)

    def fold_sessions(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``drain.sessions``; nodes that are emptied are no sessions."""
        for record in records:
            if record.type != DrainSessionChanged.TYPE:
                continue
            body = record.body()
            before = self.sessions.get(body["session"])
            found = Session(
                body["state"],
                body["outcome"],
                body["reason"],
                body["opened_ms"],
                body["commanded_ms"],
                body["deadline_ms"],
                body["changed_ms"],
                body["beyond_budget"],
                before is not None and before.by_budget,
                before is not None and before.by_distance,
            )
            if found.state == SessionState.PENDING:
                for words in body["blockers"]:
                    if words.startswith(BUDGET_WORDS):
                        found.by_budget = True
                    else:
                        found.by_distance = True
            self.sessions[body["session"]] = found

    def report(self) -> dict[str, Any]:
        """Return how sessions went, by reason and end, in ms of market time."""
        ends: Counter[str] = Counter()
        by_reason: dict[str, Counter[str]] = {}
        took_ms, allowed_ms, used_ppm = [], [], []
        late = 0
        for name, session in self.sessions.items():
            end = session.end()
            ends[end] += 1
            by_reason.setdefault(session.reason, Counter())[end] += 1
            if end != SessionState.FREED or session.commanded_ms is None:
                continue
            freed_ms = self.freed_ms.get(name, session.changed_ms)
            took_ms.append(max(0, freed_ms - session.commanded_ms))
            if session.deadline_ms is not None:
                allowed_ms.append(session.deadline_ms - session.commanded_ms)
                used_ppm.append(ratio_ppm(took_ms[-1], allowed_ms[-1]) or 0)
                late += freed_ms > session.deadline_ms
        return {
            "sessions": len(self.sessions),
            "begun": sum(s.commanded_ms is not None for s in self.sessions.values()),
            "ended": dict(sorted(ends.items())),
            "by_reason": {
                reason: dict(sorted(found.items())) for reason, found in sorted(by_reason.items())
            },
            "time_to_free_ms": {"sessions": len(took_ms), **percentiles(took_ms)},
            "time_allowed_ms": percentiles(allowed_ms),
            "used_of_allowed_ppm": percentiles(used_ppm),
            "freed_after_deadline": late,
            "forced": len(self.said.get(FORCED, ())),
            "cancels_rejected": len(self.said.get(CANCEL_REJECTED, ())),
            "caps": self._caps(),
        }

    def _caps(self) -> dict[str, Any]:
        """Return how often the guardrail held a session up, and for how long."""
        held = [s for s in self.sessions.values() if s.by_budget or s.by_distance]
        return {
            "sessions_held_up": len(held),
            "by_budget": sum(s.by_budget for s in held),
            "by_distance": sum(s.by_distance for s in held),
            "held_up_ms": percentiles([s.waited_ms(self.end_ms) for s in held]),
            "begun_beyond_budget": sum(s.beyond_budget for s in self.sessions.values()),
        }
