"""Carrying out: what happens to jobs, and what is written about it.

Each function takes the state and a :class:`Writer`, which collects the outputs of the step.
"""

from dataclasses import dataclass, field

from walras_contracts.drains import VacateRequested
from walras_contracts.identifiers import digest_of, lease_part_key
from walras_contracts.work import (
    JobState,
    JobStatusChanged,
    LeaseGranted,
    LeaseState,
    LeaseStatusChanged,
)
from walras_placement.devices import occupied_macc
from walras_placement.lifecycle import JobEvent, next_state
from walras_placement.plan import Grant, Plan, Reclass, Vacate, Wait
from walras_placement.state import Job, Lease, PlacementState
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import Output, StateChange, StepResult, emit, tombstone


@dataclass(slots=True)
class Writer:
    """The outputs of one step at ``now_ms``, in a total order: by topic, then by key."""

    now_ms: int
    outputs: list[Output] = field(default_factory=list)
    changed: dict[str, None] = field(default_factory=dict)
    """Jobs whose own record is to be written."""
    rewritten: dict[str, LeaseGranted] = field(default_factory=dict)
    """Parts of running leases that changed, as they stand last."""
    told: dict[str, None] = field(default_factory=dict)
    """Jobs whose status is to be published."""

    def result(self, state: PlacementState) -> StepResult:
        """Return all that the step wrote; a job that is gone leaves tombstones."""
        self.outputs.extend(emit(part) for part in self.rewritten.values())
        for key in self.told:
            job = state.jobs.get(key)
            if job is not None:
                self.outputs.append(emit(job.status()))
            else:
                team = key.partition("/")[0]
                self.outputs.append(tombstone(JobStatusChanged, key, team))
        changes = []
        for key in sorted(self.changed):
            job = state.jobs.get(key)
            changes.append(StateChange(key, job.dump() if job is not None else None))
        return StepResult(sorted(self.outputs, key=_by_topic_and_key), changes)


def lease_id(team: str, job: str, position: int, attempt: int) -> str:
    """Return the id of a job's lease: readable, unique over teams and later namesakes."""
    return f"{job[:30]}.{digest_of(team, job, str(position))[:12]}.{attempt}"


def reconcile(state: PlacementState, writer: Writer, key: str) -> None:
    """Bring a job in line with its queue record; without a change nothing happens."""
    entry = state.queue.get(key)
    job = state.jobs.get(key)
    if job is None:
        if entry is None:
            return
        since_ms = min(entry.submitted_ms, writer.now_ms)
        first = next_state(None, JobEvent.QUEUED)
        assert first is not None
        job = Job(
            entry.team,
            entry.job,
            first,
            writer.now_ms,
            since_ms,
            entry.expected_run_ms,
            queued=entry,
        )
        state.jobs[key] = job
        state.index(job)
        writer.changed[key] = None
    elif job.queued is not entry:
        state.unindex(job)
        job.queued = entry
        state.index(job)
    if entry is None:
        if job.lease is None:
            _forget(state, writer, job)
        return
    if entry.cancelled and job.state is JobState.PENDING:
        _withdraw(state, writer, job, writer.now_ms)
    lease = job.lease
    if lease is not None and (lease.limit_micro, lease.pool) != (entry.limit_micro, entry.pool):
        # From now on it pays at most the new limit, at the price of the pool its team is in.
        lease.limit_micro = entry.limit_micro
        lease.pool = entry.pool
        _rewrite(writer, job, lease)


def note_lease_status(state: PlacementState, writer: Writer, status: LeaseStatusChanged) -> None:
    """Take what an agent says; only ``freed`` of a part that is still open means anything."""
    job = state.by_lease.get(status.lease)
    if job is None or status.state is not LeaseState.FREED:
        return
    lease = job.held_lease()
    if status.node not in lease.open_parts:
        return
    del lease.open_parts[status.node]
    for share in lease.parts:
        if share.node == status.node:
            state.devices.release(lease.lease, share)
    key = lease_part_key(lease.lease, status.node)
    writer.outputs.append(tombstone(LeaseGranted, key, status.node))
    writer.changed[job.key] = None
    if status.outcome != "finished":
        lease.interrupted = True
        left = status.remaining_run_ms
        lease.unfinished_ms = left if left is None else max(left, lease.unfinished_ms or 0)
    if not lease.open_parts:
        _end_lease(state, writer, job, status.at_ms)


def carry_out(state: PlacementState, writer: Writer, plan: Plan) -> None:
    """Turn a plan into leases, vacates and statuses."""
    for reclass in plan.reclassed:
        _reclass(writer, reclass)
    for vacate in plan.vacated:
        _vacate(state, writer, vacate)
    for grant in plan.granted:
        _grant(state, writer, grant)
    for wait in plan.waiting:
        _wait(writer, wait)


def _end_lease(state: PlacementState, writer: Writer, job: Job, at_ms: int) -> None:
    lease = job.held_lease()
    if not lease.interrupted:
        event = JobEvent.COMPLETED
    elif job.queued is None or job.queued.cancelled:
        event = JobEvent.WITHDRAWN
    else:
        event = JobEvent.RETURNED
    job.remaining_run_ms = lease.unfinished_ms if lease.interrupted else 0
    _move(state, job, event)
    del state.by_lease[lease.lease]
    job.lease = None
    job.changed_ms = job.pending_since_ms = at_ms
    writer.told[job.key] = None
    if job.queued is None:
        _forget(state, writer, job)


def _withdraw(state: PlacementState, writer: Writer, job: Job, at_ms: int) -> None:
    job.waited_ms += max(0, at_ms - job.pending_since_ms)
    _move(state, job, JobEvent.WITHDRAWN)
    job.changed_ms = at_ms
    _clear_reason(job)
    writer.changed[job.key] = writer.told[job.key] = None


def _forget(state: PlacementState, writer: Writer, job: Job) -> None:
    _move(state, job, JobEvent.FORGOTTEN)
    del state.jobs[job.key]
    writer.changed[job.key] = writer.told[job.key] = None


def _reclass(writer: Writer, reclass: Reclass) -> None:
    job = reclass.job
    lease = job.held_lease()
    lease.work_class = reclass.work_class
    job.changed_ms = writer.now_ms
    writer.told[job.key] = None
    _rewrite(writer, job, lease)


def _rewrite(writer: Writer, job: Job, lease: Lease) -> None:
    """Write the open parts of a lease again; it may change twice in one step."""
    writer.changed[job.key] = None
    for part in lease.grants(job):
        if part.node in lease.open_parts:
            writer.rewritten[part.record_key()] = part


def _vacate(state: PlacementState, writer: Writer, vacate: Vacate) -> None:
    job = vacate.job
    _move(state, job, JobEvent.VACATED)
    job.changed_ms = writer.now_ms
    writer.changed[job.key] = writer.told[job.key] = None
    writer.outputs.append(
        emit(
            VacateRequested(
                lease=job.held_lease().lease,
                job=job.job,
                team=job.team,
                reason=vacate.reason,
                requested_ms=writer.now_ms,
            )
        )
    )


def _grant(state: PlacementState, writer: Writer, grant: Grant) -> None:
    job = grant.job
    entry = job.entry()
    now_ms = writer.now_ms
    job.waited_ms += max(0, now_ms - job.pending_since_ms)
    job.attempt += 1
    lease = Lease(
        lease_id(job.team, job.job, entry.position, job.attempt),
        grant.market,
        grant.work_class,
        entry.pool,
        occupied_macc(grant.shares),
        entry.limit_micro,
        now_ms,
        job.remaining_run_ms,
        grant.shares,
        {share.node: None for share in grant.shares},
    )
    if lease.size_macc < entry.size_macc:
        raise InvariantBrokenError(f"the parts of {lease.lease} are not the whole job")
    state.devices.hold(lease.lease, lease.market, grant.shares)
    state.by_lease[lease.lease] = job
    _move(state, job, JobEvent.GRANTED)
    job.lease = lease
    job.changed_ms = now_ms
    _clear_reason(job)
    # What it holds is what it needs to go on: the auction counts it so.
    job.needed_macc = lease.size_macc
    writer.changed[job.key] = writer.told[job.key] = None
    writer.outputs.extend(emit(part) for part in lease.grants(job))


def _wait(writer: Writer, wait: Wait) -> None:
    job = wait.job
    job.reason = wait.reason.value
    job.needed_macc = wait.needed_macc
    job.available_macc = wait.available_macc
    job.changed_ms = max(job.changed_ms, writer.now_ms)
    writer.changed[job.key] = writer.told[job.key] = None


def _clear_reason(job: Job) -> None:
    job.reason = ""
    job.needed_macc = job.available_macc = 0


def _move(state: PlacementState, job: Job, event: JobEvent) -> None:
    """Move a job to its next state, and its place in the indices with it."""
    following = next_state(job.state, event)
    state.unindex(job)
    if following is not None:
        job.state = following
        state.index(job)


def _by_topic_and_key(output: Output) -> tuple[str, str]:
    return output.topic, output.key
