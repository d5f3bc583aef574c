"""What was seen of jobs' drains, by job; of a job without lease it is kept for a week."""

from typing import Final

from walras_drain.clock import NEVER_MS
from walras_drain.scores import History

PREFIX: Final = "score/"
KEPT_MS: Final = 7 * 86_400_000


class Histories:
    """Histories by ``team/job``; a job that was never drained has none."""

    def __init__(self) -> None:
        self._jobs: dict[str, History] = {}
        self._idle: dict[str, None] = {}
        self._forget_from_ms = NEVER_MS

    def __contains__(self, job: str) -> bool:
        return job in self._jobs

    def of_job(self, job: str) -> History:
        """Return the history of a job, empty where there is none."""
        return self._jobs.get(job) or History()

    def put(self, job: str, history: History) -> None:
        """Set the history of a job."""
        self._jobs[job] = history
        if history.idle_since_ms is None:
            self._idle.pop(job, None)
        else:
            self._idle[job] = None
            self._forget_from_ms = min(self._forget_from_ms, history.idle_since_ms + KEPT_MS)

    def take_forgotten(self, now_ms: int) -> list[str]:
        """Forget the jobs that have been idle for long; return them, sorted."""
        if now_ms < self._forget_from_ms:
            return []
        ends_ms = {job: (self._jobs[job].idle_since_ms or 0) + KEPT_MS for job in self._idle}
        due = sorted(job for job, end_ms in ends_ms.items() if end_ms <= now_ms)
        for job in due:
            del self._jobs[job], self._idle[job], ends_ms[job]
        self._forget_from_ms = min(ends_ms.values(), default=NEVER_MS)
        return due
