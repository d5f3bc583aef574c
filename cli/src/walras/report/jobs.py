"""What became of jobs: waits, ends, the queue over time."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from walras.report.records import LogRecord, ReportError
from walras.report.series import Bins, percentiles
from walras.report.waiting import WaitBook
from walras_contracts.demand import JobSubmitted
from walras_contracts.work import JobState


@dataclass(slots=True)
class JobCourse:
    """Where a job stands, as far as the log was read."""

    state: str
    waited_ms: int
    changed_ms: int
    started: bool
    reason: str


@dataclass(slots=True)
class JobBook:
    """Folds ``demand`` (for the sizes), then ``job.status``."""

    bins: Bins
    sizes_macc: dict[str, int] = field(default_factory=dict)
    teams: dict[str, str] = field(default_factory=dict)
    undecodable: int = 0
    courses: dict[str, JobCourse] = field(default_factory=dict)
    first_waits_ms: dict[str, list[int]] = field(default_factory=dict)
    """By team, the time each job had waited when it first started."""
    reasons: Counter[str] = field(default_factory=Counter)
    waits: WaitBook = field(default_factory=WaitBook)
    _jobs_delta: list[int] = field(default_factory=list)
    _macc_delta: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Size the bins."""
        self._jobs_delta = [0] * self.bins.count
        self._macc_delta = [0] * self.bins.count

    def fold_demand(self, records: Iterable[LogRecord]) -> None:
        """Take the submissions; what the outside wrote may be anything and is then only counted."""
        for record in records:
            if record.type != JobSubmitted.TYPE:
                continue
            try:
                body = record.body()
                key, size_macc, team = record.key, int(body["size_macc"]), str(body["team"])
            except (ReportError, KeyError, TypeError, ValueError):
                self.undecodable += 1
                continue
            self.sizes_macc.setdefault(key, size_macc)
            self.teams.setdefault(key, team)

    def fold_status(self, records: Iterable[LogRecord]) -> None:
        """Take the records of ``job.status``."""
        for record in records:
            body = record.body()
            key, state = record.key, body["state"]
            course = self.courses.get(key)
            was_pending = course is not None and course.state == JobState.PENDING
            is_pending = state == JobState.PENDING
            if is_pending != was_pending:
                self._move(key, body["changed_ms"], 1 if is_pending else -1)
            if is_pending and body["reason"]:
                self.reasons[body["reason"]] += 1
            size_macc = self.sizes_macc.get(key, 0)
            if course is not None and was_pending:
                self._waited(key, course, body["changed_ms"])
            if state == JobState.RUNNING and (course is None or was_pending):
                self.waits.started(key, body["waited_ms"], size_macc)
            if course is None or course.state != state:
                self.waits.ended(state, body["waited_ms"])
            started = course is not None and course.started
            if state == JobState.RUNNING and not started:
                self.first_waits_ms.setdefault(body["team"], []).append(body["waited_ms"])
                started = True
            self.teams.setdefault(key, body["team"])
            self.courses[key] = JobCourse(
                state, body["waited_ms"], body["changed_ms"], started, body["reason"]
            )

    def _waited(self, key: str, course: JobCourse, until_ms: int) -> None:
        """Count the time that a pending job waited for one reason, inside the window."""
        length_ms = min(until_ms, self.bins.end_ms) - course.changed_ms
        self.waits.waited(course.reason, length_ms, self.sizes_macc.get(key, 0))

    def wait_report(self) -> Mapping[str, Any]:
        """Return what jobs waited, for what; call it once, at the end."""
        for key, course in self.courses.items():
            if course.state == JobState.PENDING:
                self._waited(key, course, self.bins.end_ms)
        return self.waits.report()

    def _move(self, key: str, changed_ms: int, step: int) -> None:
        if changed_ms >= self.bins.end_ms:
            return
        index = self.bins.index(changed_ms)
        self._jobs_delta[index] += step
        self._macc_delta[index] += step * self.sizes_macc.get(key, 0)

    def report(self) -> dict[str, Any]:
        """Return counts, waits in ms and the queue at the end of each bin."""
        states = Counter(course.state for course in self.courses.values())
        waits = [wait for team in sorted(self.first_waits_ms) for wait in self.first_waits_ms[team]]
        still = [
            course.waited_ms + max(0, self.bins.end_ms - course.changed_ms)
            for course in self.courses.values()
            if course.state == JobState.PENDING and not course.started
        ]
        return {
            "submitted": len(self.sizes_macc),
            "undecodable_submissions": self.undecodable,
            "started": len(waits),
            "finished": states[JobState.FINISHED],
            "cancelled": states[JobState.CANCELLED],
            "running_at_end": states[JobState.RUNNING] + states[JobState.DRAINING],
            "waiting_at_end": states[JobState.PENDING],
            "wait_to_first_start_ms": {"jobs": len(waits), **percentiles(waits)},
            "wait_so_far_of_never_started_ms": {"jobs": len(still), **percentiles(still)},
            "reasons_for_waiting": dict(sorted(self.reasons.items())),
            "queue": {
                "jobs": list(accumulate(self._jobs_delta)),
                "accelerators_milli": list(accumulate(self._macc_delta)),
            },
        }

    def of_team(self, team: str) -> dict[str, Any]:
        """Return the same counts for one team."""
        states = Counter(
            course.state for key, course in self.courses.items() if self.teams[key] == team
        )
        return {
            "jobs_submitted": sum(1 for key in self.sizes_macc if self.teams[key] == team),
            "jobs_finished": states[JobState.FINISHED],
            "jobs_waiting_at_end": states[JobState.PENDING],
            "wait_to_first_start_ms": percentiles(self.first_waits_ms.get(team, [])),
        }
