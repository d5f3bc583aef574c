"""What agents say about drains, and what the drain service asks for (decision 17)."""

from typing import Final

from walras_contracts.drains import DrainRequested
from walras_contracts.work import DrainState, DrainStatusChanged, JobState
from walras_placement.jobs import Job
from walras_placement.lifecycle import JobEvent
from walras_placement.moves import evict, move, stay
from walras_placement.parts import give_up
from walras_placement.state import PlacementState
from walras_placement.writer import Writer

COMMITTED: Final = frozenset({DrainState.TERMINATING, DrainState.VERIFYING})
"""States from which a part does not go back."""
CANCEL_REJECTED: Final = "cancel_rejected"


def note_drain_status(state: PlacementState, writer: Writer, status: DrainStatusChanged) -> None:
    """Take how far the drain of a part has come; only ``lease.status`` frees its devices."""
    job = state.by_lease.get(status.lease)
    if job is None or status.node not in job.held_lease().open_parts:
        return
    lease = job.held_lease()
    if status.state is DrainState.FAILED:
        give_up(
            state,
            writer,
            job,
            status.node,
            left_ms=lease.unfinished_ms if lease.interrupted else lease.remaining_run_ms,
            asked=True,
        )
        return
    if status.state is DrainState.FREED:
        return
    if lease.drain_said.get(status.node) != status.state:
        lease.drain_said[status.node] = status.state.value
        writer.changed[job.key] = None
    if status.outcome == CANCEL_REJECTED or status.state in COMMITTED:
        _go_on(state, writer, job)
    elif status.state is DrainState.CANCELLED:
        _take_cancelled(state, writer, job)


def note_request(state: PlacementState, writer: Writer, request: DrainRequested) -> None:
    """Take that the drain service asks for a lease to leave, or does not any more."""
    job = state.by_lease.get(request.lease)
    if job is None:
        return
    lease = job.held_lease()
    wanted = None if request.cancel else request.reason
    if lease.requested is not wanted:
        state.unindex(job)
        lease.requested = wanted
        state.index(job)
        writer.changed[job.key] = None


def _go_on(state: PlacementState, writer: Writer, job: Job) -> None:
    """Note that a drain cannot be cancelled any more: its job leaves, whatever was hoped."""
    lease = job.held_lease()
    if lease.too_late and not lease.withdrawn and job.state is JobState.DRAINING:
        return
    lease.too_late, lease.withdrawn = True, False
    if job.state is JobState.RUNNING:
        # It was evicted after all.
        evict(writer, job)
        job.changed_ms = writer.moment.now_ms
        writer.told[job.key] = None
    move(state, writer, job, JobEvent.WENT_ON)
    state.note_leaving(lease.market)
    writer.changed[job.key] = None


def _take_cancelled(state: PlacementState, writer: Writer, job: Job) -> None:
    """Let a job run on once the agents of all its open parts say that it does."""
    lease = job.held_lease()
    said = [lease.drain_said.get(node) for node in lease.open_parts]
    if any(each != DrainState.CANCELLED for each in said):
        return
    if lease.withdrawn:
        stay(state, writer, job)
    else:
        # It was asked to leave again, or was let stay before its agents said anything.
        lease.drain_said.clear()
        writer.changed[job.key] = None
