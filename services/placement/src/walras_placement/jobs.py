"""A job as placement knows it, from its first queue record until it is forgotten."""

import json
from dataclasses import dataclass, field
from typing import Final

from walras_contracts.demand import JobQueued
from walras_contracts.identifiers import job_key
from walras_contracts.work import JobState, JobStatusChanged, WorkClass
from walras_placement.leases import Lease
from walras_runtime.errors import InvariantBrokenError


@dataclass(slots=True, eq=False)
class Job:
    """A job; ``queued`` is its latest queue record, None once it left the queue.

    ``waited_ms`` counts up to ``pending_since_ms`` while it is pending, all of it otherwise. Steps
    are numbers of barriers.
    """

    team: str
    job: str
    state: JobState
    changed_ms: int
    pending_since_ms: int
    pending_since_step: int
    remaining_run_ms: int | None
    attempt: int = 0
    waited_ms: int = 0
    reason: str = ""
    needed_macc: int = 0
    available_macc: int = 0
    waits_since_cycle: int | None = None
    """The cycle in which the reason was said."""
    failures: int = 0
    """How many starts in a row failed."""
    parked_until_ms: int = 0
    held_until_step: int = 0
    """Before it, the job is not started again: it was evicted."""
    frozen_until_step: int = 0
    frozen_by: str = ""
    """As long as this job has not ended, it is held until ``frozen_until_step``."""
    turn_since_step: int | None = None
    """When its last turn began in which nothing of its team overtakes it (`turns`)."""
    missed: bool = False
    """It was not finished by its deadline."""
    lease: Lease | None = None
    queued: JobQueued | None = None
    key: str = field(init=False)
    """Record key ``team/job``."""

    def __post_init__(self) -> None:
        self.key = job_key(self.team, self.job)

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

    def is_held_back(self, step: int) -> bool:
        """Whether it must not be started because it was evicted not long ago."""
        return step < self.held_until_step or step < self.frozen_until_step

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
            cycle=self.waits_since_cycle,
        )

    def dump(self) -> bytes:
        """Return the job as one record of the state topic."""
        fields = [
            self.state.value,
            self.changed_ms,
            self.pending_since_ms,
            self.pending_since_step,
            self.remaining_run_ms,
            self.attempt,
            self.waited_ms,
            self.reason,
            self.needed_macc,
            self.available_macc,
            self.waits_since_cycle,
            self.failures,
            self.parked_until_ms,
            self.held_until_step,
            self.frozen_until_step,
            self.frozen_by,
            self.turn_since_step,
            self.missed,
            self.lease.dump() if self.lease is not None else None,
        ]
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def parse(key: str, value: bytes) -> "Job":
        """Read a record of the state topic."""
        team, _, job = key.partition("/")
        document = dict(zip(FIELDS, json.loads(value), strict=True))
        lease = document.pop("lease")
        document["state"] = JobState(document["state"])
        return Job(team, job, **document, lease=Lease.parse(lease) if lease else None)


FIELDS: Final = (
    *("state", "changed_ms", "pending_since_ms", "pending_since_step", "remaining_run_ms"),
    *("attempt", "waited_ms", "reason", "needed_macc", "available_macc", "waits_since_cycle"),
    *("failures", "parked_until_ms", "held_until_step", "frozen_until_step", "frozen_by"),
    *("turn_since_step", "missed", "lease"),
)
"""What a record of the state topic holds, in order."""
