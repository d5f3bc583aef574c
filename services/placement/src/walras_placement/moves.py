"""Moves of a job through its life, with its place in the indices and what is written."""

from walras_contracts.work import JobState
from walras_placement.jobs import Job
from walras_placement.lifecycle import JobEvent, next_state
from walras_placement.parking import note_end
from walras_placement.reservations import holders, leases_in
from walras_placement.state import ENDED, PlacementState
from walras_placement.writer import Writer


def move(state: PlacementState, writer: Writer, job: Job, event: JobEvent) -> None:
    """Move a job to its next state, and its place in the indices with it."""
    following = next_state(job.state, event)
    state.unindex(job)
    if following is not None:
        job.state = following
        state.index(job)
    if following is None or following in ENDED:
        _unfreeze(state, writer, job)


def stay(state: PlacementState, writer: Writer, job: Job) -> None:
    """Let a leaving job run on: it was never evicted."""
    lease = job.held_lease()
    lease.withdrawn = lease.evicted = False
    lease.drain_said.clear()
    job.held_until_step = 0
    move(state, writer, job, JobEvent.STAYED)
    job.changed_ms = writer.moment.now_ms
    writer.changed[job.key] = writer.told[job.key] = None


def evict(writer: Writer, job: Job) -> None:
    """Note that a job has to leave for the sake of others, or the like: it does not come back soon.

    It would only leave again.
    """
    job.held_lease().evicted = True
    job.held_until_step = writer.moment.step + writer.rules.steps(writer.rules.held_back_cycles)


def end_run(state: PlacementState, writer: Writer, job: Job, at_ms: int) -> None:
    """End the run of a job of which no part is left that an agent answers for."""
    lease = job.held_lease()
    if not lease.interrupted:
        event = JobEvent.COMPLETED
    elif job.queued is None or job.queued.cancelled:
        event = JobEvent.WITHDRAWN
    else:
        event = JobEvent.RETURNED
    job.remaining_run_ms = lease.unfinished_ms if lease.interrupted else 0
    note_end(job, lease, writer.moment.now_ms, is_finished=event is JobEvent.COMPLETED)
    move(state, writer, job, event)
    del state.by_lease[lease.lease]
    job.lease = None
    job.changed_ms = job.pending_since_ms = at_ms
    job.pending_since_step = writer.moment.step
    writer.changed[job.key] = writer.told[job.key] = None
    if job.queued is None:
        forget(state, writer, job)


def withdraw(state: PlacementState, writer: Writer, job: Job, at_ms: int) -> None:
    """End a pending job that its team cancelled."""
    job.waited_ms += max(0, at_ms - job.pending_since_ms)
    move(state, writer, job, JobEvent.WITHDRAWN)
    job.changed_ms = at_ms
    clear_reason(job)
    writer.changed[job.key] = writer.told[job.key] = None


def forget(state: PlacementState, writer: Writer, job: Job) -> None:
    """Forget a job that left the queue and holds nothing."""
    move(state, writer, job, JobEvent.FORGOTTEN)
    release(state, writer, job.key)
    del state.jobs[job.key]
    writer.changed[job.key] = writer.told[job.key] = None


def release(state: PlacementState, writer: Writer, key: str) -> None:
    """End the reservation of a job, if it has one; who holds its devices may perhaps stay."""
    reservation = state.reservations.pop(key, None)
    if reservation is None:
        return
    for lease in leases_in(reservation, state.devices.nodes):
        if lease in state.by_lease:
            state.later[state.by_lease[lease].team] = None
    state.devices.unreserve(key, reservation.market, reservation.shares)
    writer.reserved[key] = None


def review_reservations(state: PlacementState, writer: Writer) -> None:
    """End the reservations whose devices cannot be had any more, or have been free for too long."""
    step = writer.moment.step
    keep_steps = writer.rules.steps(writer.rules.keep_free_cycles)
    for key in sorted(state.reservations):
        reservation = state.reservations[key]
        found = holders(reservation, state.devices.nodes)
        is_valid = found is not None and all(_is_leaving(state, lease) for lease in found)
        after = reservation.after(step, is_free=not found)
        if not is_valid or after.is_over(step, keep_steps):
            state.dirty[state.jobs[key].team] = None
            release(state, writer, key)
        elif after is not reservation:
            state.reservations[key] = after
            writer.reserved[key] = None


def _is_leaving(state: PlacementState, lease: str) -> bool:
    job = state.by_lease[lease]
    return job.state is JobState.DRAINING and not job.held_lease().withdrawn


def clear_reason(job: Job) -> None:
    """Forget why a job waited."""
    job.reason = ""
    job.needed_macc = job.available_macc = 0
    job.waits_since_cycle = None


def _unfreeze(state: PlacementState, writer: Writer, job: Job) -> None:
    """Let those start again that waited for the end of a job."""
    state.takeovers.forget(job.key)
    for key in sorted(state.frozen.pop(job.key, {})):
        other = state.jobs.get(key)
        if other is not None and other.frozen_by == job.key:
            other.frozen_until_step, other.frozen_by = 0, ""
            state.later[other.team] = None
            writer.changed[key] = None
