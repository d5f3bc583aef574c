"""Specification of `job_table`: every team's queue, made of the latest records of its jobs."""

from walras_clearing import Job
from walras_clearing_service.reference_bidder import PlainBidPlan
from walras_clearing_service.reference_model import JobView
from walras_contracts.demand import JobQueued
from walras_contracts.wait_reasons import ENDED_STATES, NO_DEMAND, NO_PLACE
from walras_contracts.work import JobState, JobStatusChanged, WorkClass

HOLDING = frozenset({JobState.RUNNING, JobState.DRAINING})


class PlainQueue:
    """The latest records of all jobs, with clearing's own memory of them."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobQueued] = {}
        self._statuses: dict[str, JobStatusChanged] = {}
        self.assigned: dict[str, str] = {}
        self.unplaceable: dict[str, int] = {}

    def put_job(self, key: str, job: JobQueued | None) -> None:
        """Take a queue record; None: the job left, and is forgotten."""
        if job is None:
            self._jobs.pop(key, None)
        else:
            self._jobs[key] = job

    def put_status(self, key: str, status: JobStatusChanged | None) -> None:
        """Take a status record; it may come before the job's own record."""
        if status is None:
            self._statuses.pop(key, None)
        else:
            self._statuses[key] = status

    def remember(self, plan: PlainBidPlan) -> None:
        """Take what a cycle decided about jobs."""
        self.assigned.update(plan.assigned)
        for key, since in plan.unplaceable.items():
            if since is None:
                self.unplaceable.pop(key, None)
            else:
                self.unplaceable[key] = since

    def forget_left(self) -> None:
        """Forget what was remembered of jobs that left the queue."""
        for memory in (self.assigned, self.unplaceable):
            for key in [key for key in memory if key not in self._jobs]:
                del memory[key]

    def teams(self) -> dict[str, tuple[JobView, ...]]:
        """Return per team, in id order, the jobs that may be demand, in queue order."""
        found: dict[str, list[JobView]] = {}
        for key in sorted(self._jobs):
            view = self._view(key)
            if view is not None:
                found.setdefault(view.team, []).append(view)
        return {
            team: tuple(sorted(found[team], key=lambda job: (job.position, job.key)))
            for team in sorted(found)
        }

    def pool_of(self, jobs: tuple[JobView, ...]) -> str:
        """Return the pool that intake saw, for a team without an account in effect."""
        return min(self._jobs[job.key].pool for job in jobs)

    def _view(self, key: str) -> JobView | None:
        job = self._jobs[key]
        status = self._statuses.get(key)
        if job.cancelled or (status is not None and status.state in ENDED_STATES):
            return None
        holds = status is not None and status.state in HOLDING
        if status is not None and not holds and status.reason in NO_DEMAND:
            return None
        # Placement gives whole devices: what it says that the job needs or holds is its demand.
        size_macc = max(job.size_macc, status.needed_macc if status is not None else 0)
        return JobView(
            key=key,
            team=job.team,
            types=job.types,
            size_macc=size_macc,
            limit_micro=job.limit_micro,
            gang=job.gang,
            minimum_run_ms=job.minimum_run_ms,
            position=job.position,
            running_in=status.market if status is not None and holds else None,
            draining=status is not None and status.state is JobState.DRAINING,
            runs_for_nothing=status is not None
            and status.state is JobState.RUNNING
            and status.work_class is WorkClass.OPPORTUNISTIC,
            started_ms=status.started_ms if status is not None and holds else None,
            refused=status is not None and not holds and status.reason in NO_PLACE,
            assigned=self.assigned.get(key),
            unplaceable_since=self.unplaceable.get(key),
            offer=Job(job.job, size_macc, job.limit_micro),
        )
