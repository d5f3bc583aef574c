"""The queue by team: jobs as the cycles see them, rebuilt only where something changed."""

from walras_clearing import Job
from walras_clearing_service.model import JobView, jobs_digest
from walras_contracts.demand import JobQueued
from walras_contracts.wait_reasons import ENDED_STATES, NO_PLACE
from walras_contracts.work import JobState, JobStatusChanged

HOLDING = frozenset({JobState.RUNNING, JobState.DRAINING})


class TeamQueue:
    """The jobs of one team: latest records by job, and the views made of them."""

    __slots__ = ("_changed", "_digest", "_jobs", "_ordered", "_statuses", "_views")

    def __init__(self) -> None:
        self._jobs: dict[str, JobQueued] = {}
        self._statuses: dict[str, JobStatusChanged] = {}
        self._views: dict[str, JobView] = {}
        self._changed: dict[str, None] = {}
        self._ordered: tuple[JobView, ...] = ()
        self._digest = jobs_digest(())

    def put_job(self, key: str, job: JobQueued | None) -> None:
        """Take the latest queue record of a job; None: it left the queue."""
        self._changed[key] = None
        if job is None:
            self._jobs.pop(key, None)
        else:
            self._jobs[key] = job

    def put_status(self, key: str, status: JobStatusChanged | None) -> None:
        """Take the latest status record of a job; None: placement forgot it."""
        self._changed[key] = None
        if status is None:
            self._statuses.pop(key, None)
        else:
            self._statuses[key] = status

    def touch(self, key: str) -> None:
        """Say that clearing's own memory of a job changed."""
        self._changed[key] = None

    def pool(self) -> str:
        """Return the pool that intake saw, for a team without an account in effect."""
        return min((self._jobs[key].pool for key in self._views), default="")

    def views(
        self, assigned: dict[str, str], unplaceable: dict[str, int]
    ) -> tuple[tuple[JobView, ...], bytes]:
        """Return the jobs that may be demand, in queue order, and their digest."""
        if self._changed:
            for key in self._changed:
                view = self._view(key, assigned.get(key), unplaceable.get(key))
                if view is None:
                    self._views.pop(key, None)
                else:
                    self._views[key] = view
            self._changed.clear()
            self._ordered = tuple(sorted(self._views.values(), key=_queue_order))
            self._digest = jobs_digest(self._ordered)
        return self._ordered, self._digest

    def _view(self, key: str, assigned: str | None, since: int | None) -> JobView | None:
        job = self._jobs.get(key)
        status = self._statuses.get(key)
        if job is None or job.cancelled or (status is not None and status.state in ENDED_STATES):
            return None
        holds = status is not None and status.state in HOLDING
        running_in = status.market if status is not None and holds else None
        started_ms = status.started_ms if status is not None and holds else None
        draining = status is not None and status.state is JobState.DRAINING
        # Placement gives whole devices: what it says that the job needs or holds is its demand.
        size_macc = max(job.size_macc, status.needed_macc if status is not None else 0)
        refused = status is not None and not holds and status.reason in NO_PLACE
        facts = (
            key,
            job.types,
            size_macc,
            job.limit_micro,
            job.gang,
            job.minimum_run_ms,
            job.position,
            running_in,
            draining,
            started_ms,
            refused,
            assigned,
            since,
        )
        return JobView(
            key=key,
            team=job.team,
            types=job.types,
            size_macc=size_macc,
            limit_micro=job.limit_micro,
            gang=job.gang,
            minimum_run_ms=job.minimum_run_ms,
            position=job.position,
            running_in=running_in,
            draining=draining,
            started_ms=started_ms,
            refused=refused,
            assigned=assigned,
            unplaceable_since=since,
            offer=Job(job.job, size_macc, job.limit_micro),
            row=repr(facts).encode(),
        )


class Queue:
    """All teams' queues, with clearing's own memory of jobs: assigned market, no place since."""

    def __init__(self) -> None:
        self._teams: dict[str, TeamQueue] = {}
        self._left: dict[str, None] = {}
        self.assigned: dict[str, str] = {}
        self.unplaceable: dict[str, int] = {}

    def put_job(self, key: str, job: JobQueued | None) -> None:
        """Take a queue record."""
        team = self._team_of(key)
        team.put_job(key, job)
        if job is None:
            self._left[key] = None
        else:
            self._left.pop(key, None)

    def put_status(self, key: str, status: JobStatusChanged | None) -> None:
        """Take a status record; it may come before the job's own record."""
        self._team_of(key).put_status(key, status)

    def assign(self, key: str, market: str) -> None:
        """Remember the market of a job."""
        self.assigned[key] = market
        self._team_of(key).touch(key)

    def mark_unplaceable(self, key: str, since_cycle: int | None) -> None:
        """Remember since when there is no place for a job; None: there is one."""
        if since_cycle is None:
            self.unplaceable.pop(key, None)
        else:
            self.unplaceable[key] = since_cycle
        self._team_of(key).touch(key)

    def forget_left(self) -> list[tuple[str, bool, bool]]:
        """Forget what was remembered of jobs that left.

        Returns
        -------
        list
            Per forgotten job in key order: its key, whether an assignment went, whether a mark
            went.
        """
        gone = [
            (key, key in self.assigned, key in self.unplaceable)
            for key in sorted(self._left)
            if key in self.assigned or key in self.unplaceable
        ]
        for key, _, _ in gone:
            self.assigned.pop(key, None)
            self.unplaceable.pop(key, None)
        self._left.clear()
        return gone

    def pool_of(self, team: str) -> str:
        """Return the pool that a team's jobs name."""
        return self._teams[team].pool()

    def teams(self) -> list[tuple[str, tuple[JobView, ...], bytes]]:
        """Return per team with jobs, in id order: id, jobs in queue order, digest."""
        found = []
        for name in sorted(self._teams):
            queue = self._teams[name]
            jobs, digest = queue.views(self.assigned, self.unplaceable)
            if jobs:
                found.append((name, jobs, digest))
        return found

    def _team_of(self, key: str) -> TeamQueue:
        name = key.partition("/")[0]
        queue = self._teams.get(name)
        if queue is None:
            queue = self._teams[name] = TeamQueue()
        return queue


def _queue_order(job: JobView) -> tuple[int, str]:
    return job.position, job.key
