"""What placement knows: the tables of others, its own jobs and leases, and indices over them."""

import json
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any

from walras_contracts.demand import JobQueued
from walras_contracts.identifiers import job_key
from walras_contracts.market import MarketQuota
from walras_contracts.work import JobState, JobStatusChanged, LeaseGranted, WorkClass
from walras_placement.accounts import RetentionGaps
from walras_placement.budgets import TOLD, ExhaustedTeams
from walras_placement.devices import DevicePool, Share
from walras_runtime.errors import InvariantBrokenError


@dataclass(slots=True)
class Lease:
    """Devices that a job holds; ``size_macc`` counts them whole.

    ``open_parts`` are those that are not verified free yet.
    """

    lease: str
    market: str
    work_class: WorkClass
    pool: str
    size_macc: int
    limit_micro: int | None
    granted_ms: int
    remaining_run_ms: int | None
    parts: tuple[Share, ...]
    open_parts: dict[str, None]
    unfinished_ms: int | None = None
    """Run time that a freed part reported as left."""
    interrupted: bool = False
    """A freed part left work undone."""

    def grants(self, job: "Job") -> list[LeaseGranted]:
        """Return the records of all parts as they stand."""
        return [
            LeaseGranted(
                lease=self.lease,
                node=share.node,
                part=index,
                parts=len(self.parts),
                attempt=job.attempt,
                job=job.job,
                team=job.team,
                pool=self.pool,
                market=self.market,
                work_class=self.work_class,
                devices=share.devices,
                size_macc=share.size_macc,
                limit_micro=self.limit_micro,
                granted_ms=self.granted_ms,
                remaining_run_ms=self.remaining_run_ms,
            )
            for index, share in enumerate(self.parts)
        ]


@dataclass(slots=True)
class Job:
    """A job from its first queue record until it is forgotten.

    ``waited_ms`` counts up to ``pending_since_ms`` while it is pending, all of it otherwise.
    ``queued`` is its latest queue record, None once it left the queue.
    """

    team: str
    job: str
    state: JobState
    changed_ms: int
    pending_since_ms: int
    remaining_run_ms: int | None
    attempt: int = 0
    waited_ms: int = 0
    reason: str = ""
    needed_macc: int = 0
    available_macc: int = 0
    lease: Lease | None = None
    queued: JobQueued | None = None

    @property
    def key(self) -> str:
        """Record key ``team/job``."""
        return job_key(self.team, self.job)

    @property
    def order(self) -> tuple[int, str]:
        """Place in the queue of its team."""
        return (self.entry().position, self.job)

    def entry(self) -> JobQueued:
        """Return the queue record.

        Raises
        ------
        InvariantBrokenError
            It left the queue.
        """
        if self.queued is None:
            raise InvariantBrokenError(f"{self.key} is not in the queue")
        return self.queued

    def held_lease(self) -> Lease:
        """Return the lease.

        Raises
        ------
        InvariantBrokenError
            It holds none.
        """
        if self.lease is None:
            raise InvariantBrokenError(f"{self.key} holds no lease")
        return self.lease

    def status(self) -> JobStatusChanged:
        """Return where the job stands, for the others."""
        lease = self.lease
        work_class = lease.work_class if lease is not None else None
        if self.state is JobState.DRAINING:
            work_class = WorkClass.OVERHANG
        waited = self.waited_ms
        if self.state is JobState.PENDING:
            waited += max(0, self.changed_ms - self.pending_since_ms)
        return JobStatusChanged(
            team=self.team,
            job=self.job,
            state=self.state,
            reason=self.reason,
            market=lease.market if lease is not None else None,
            lease=lease.lease if lease is not None else None,
            work_class=work_class,
            attempt=self.attempt,
            remaining_run_ms=self.remaining_run_ms,
            waited_ms=waited,
            started_ms=lease.granted_ms if lease is not None else None,
            changed_ms=self.changed_ms,
            needed_macc=self.needed_macc,
            available_macc=self.available_macc,
        )

    def dump(self) -> bytes:
        """Return the job as one record of the state topic."""
        fields = [
            self.state.value,
            self.changed_ms,
            self.pending_since_ms,
            self.remaining_run_ms,
            self.attempt,
            self.waited_ms,
            self.reason,
            self.needed_macc,
            self.available_macc,
            _dump_lease(self.lease) if self.lease is not None else None,
        ]
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def parse(key: str, value: bytes) -> "Job":
        """Read a record of the state topic."""
        team, _, job = key.partition("/")
        state, *numbers, reason, needed, available, lease = json.loads(value)
        changed, since, remaining, attempt, waited = numbers
        return Job(
            team,
            job,
            JobState(state),
            changed,
            since,
            remaining,
            attempt,
            waited,
            reason,
            needed,
            available,
            _parse_lease(lease) if lease is not None else None,
        )


def _dump_lease(lease: Lease) -> list[object]:
    return [
        lease.lease,
        lease.market,
        lease.work_class.value,
        lease.pool,
        lease.size_macc,
        lease.limit_micro,
        lease.granted_ms,
        lease.remaining_run_ms,
        [[share.node, share.devices, share.size_macc] for share in lease.parts],
        sorted(lease.open_parts),
        lease.unfinished_ms,
        lease.interrupted,
    ]


def _parse_lease(fields: list[Any]) -> Lease:
    name, market, work_class, pool, size, limit, granted, remaining, *rest = fields
    parts, opened, unfinished, interrupted = rest
    return Lease(
        name,
        market,
        WorkClass(work_class),
        pool,
        size,
        limit,
        granted,
        remaining,
        tuple(Share(node, tuple(devices), part) for node, devices, part in parts),
        dict.fromkeys(opened),
        unfinished,
        interrupted,
    )


@dataclass(slots=True)
class TeamJobs:
    """A team's jobs by what they do: pending in queue order, running by key."""

    pending: list[tuple[tuple[int, str], Job]] = field(default_factory=list)
    running: dict[str, Job] = field(default_factory=dict)


class PlacementState:
    """Tables of accounts, nodes, quotas and queue; own jobs; indices that a restart rebuilds."""

    def __init__(self) -> None:
        self.retention = RetentionGaps()
        self.exhausted = ExhaustedTeams()
        self.devices = DevicePool()
        self.quotas: dict[str, dict[str, MarketQuota]] = {}
        self.queue: dict[str, JobQueued] = {}
        self.jobs: dict[str, Job] = {}
        self.teams: dict[str, TeamJobs] = {}
        self.by_lease: dict[str, Job] = {}
        self.touched: dict[str, None] = {}
        """Jobs whose queue record came since the last step (all of them after a restart)."""

    def load(self, key: str, value: bytes) -> None:
        """Take back one own record; the tables have been folded already."""
        if key.startswith(TOLD):
            self.exhausted.load(key, value)
            return
        job = Job.parse(key, value)
        job.queued = self.queue.get(key)
        self.jobs[key] = job
        if job.lease is not None:
            self.by_lease[job.lease.lease] = job
            self.devices.hold(
                job.lease.lease,
                job.lease.market,
                [s for s in job.lease.parts if s.node in job.lease.open_parts],
            )
        self.index(job)

    def index(self, job: Job) -> None:
        """Put a job where its state belongs."""
        team = self.teams.setdefault(job.team, TeamJobs())
        if job.state is JobState.PENDING and job.queued is not None:
            insort(team.pending, (job.order, job), key=_order)
        elif job.state is JobState.RUNNING:
            team.running[job.key] = job

    def unindex(self, job: Job) -> None:
        """Take a job out of the place of its state."""
        team = self.teams.setdefault(job.team, TeamJobs())
        if job.state is JobState.PENDING and job.queued is not None:
            at = bisect_left(team.pending, job.order, key=_order)
            if at < len(team.pending) and team.pending[at][1] is job:
                del team.pending[at]
        elif job.state is JobState.RUNNING:
            team.running.pop(job.key, None)


def _order(place: tuple[tuple[int, str], Job]) -> tuple[int, str]:
    return place[0]
