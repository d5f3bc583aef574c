"""Parts of leases: how gangs start, how parts end, what is lost with a node (decision 17)."""

from walras_contracts.drains import VacateReason, VacateRequested
from walras_contracts.work import JobState, LeaseOutcome, LeaseState, LeaseStatusChanged
from walras_placement.jobs import Job
from walras_placement.moves import end_run
from walras_placement.parking import is_failed_start
from walras_placement.remnants import Remnant
from walras_placement.state import PlacementState
from walras_placement.writer import Writer
from walras_runtime.records import emit

STARTED = (LeaseState.ACCEPTED, LeaseState.RUNNING)


def note_lease_status(state: PlacementState, writer: Writer, status: LeaseStatusChanged) -> None:
    """Take what an agent says of a part; what it says of one that is over means nothing."""
    remnant = state.remnants.find(status.lease, status.node)
    if remnant is not None:
        if status.state is LeaseState.FREED:
            _free_remnant(state, writer, remnant)
        elif status.state in STARTED:
            # It runs although its job has gone on elsewhere: it must end.
            _ask(writer, remnant)
        return
    job = state.by_lease.get(status.lease)
    if job is None or status.node not in job.held_lease().open_parts:
        return
    match status.state:
        case LeaseState.FREED:
            _free(state, writer, job, status)
        case LeaseState.STUCK:
            _stick(state, writer, job, status)
        case _:
            _note_start(writer, job, status)


def give_up(
    state: PlacementState,
    writer: Writer,
    job: Job,
    node: str,
    *,
    left_ms: int | None,
    asked: bool,
    is_finished: bool = False,
) -> None:
    """Leave the devices of a part to a remnant: no agent answers for it any more.

    Parameters
    ----------
    node
        Where the part is.
    left_ms
        Run time that is left of the job, as far as is known.
    asked
        Whether its agent knows that it must leave.
    is_finished
        Whether its work was done.
    """
    lease = job.held_lease()
    share = lease.share_on(node)
    remnant = Remnant(lease.lease, job.team, job.job, lease.market, lease.granted_ms, share, asked)
    state.devices.abandon(lease.lease, share)
    state.remnants.add(remnant)
    writer.note_remnant(remnant)
    at_ms = writer.moment.now_ms
    _close(state, writer, job, node, at_ms=at_ms, left_ms=left_ms, is_finished=is_finished)


def settle_nodes(state: PlacementState, writer: Writer) -> None:
    """Follow what became of nodes: what was fenced is free, what was lost nobody answers for.

    A remnant whose node can be reached again is asked to leave.
    """
    for name in state.devices.take_put():
        for lease in state.devices.leases_on(name):
            _settle_lease(state, writer, name, lease)
        node = state.devices.nodes.get(name)
        for remnant in state.remnants.on(name):
            if node is not None and node.lost:
                if remnant.asked:
                    remnant.asked = False
                    writer.note_remnant(remnant)
            elif not remnant.asked:
                _ask(writer, remnant)


def _settle_lease(state: PlacementState, writer: Writer, name: str, lease_id: str) -> None:
    node = state.devices.nodes[name]
    job = state.by_lease.get(lease_id)
    remnant = state.remnants.find(lease_id, name)
    if remnant is not None:
        if node.fenced_ms is not None and remnant.granted_ms <= node.fenced_ms:
            _free_remnant(state, writer, remnant)
        return
    if job is None:
        return
    # A device that must not be used may be usable again, or the other way round.
    state.dirty[job.team] = None
    lease = job.held_lease()
    if node.fenced_ms is not None and lease.granted_ms <= node.fenced_ms:
        share = lease.share_on(name)
        state.devices.release(lease_id, share)
        writer.end_part(lease_id, name)
        at_ms, left_ms = writer.moment.now_ms, lease.remaining_run_ms
        _close(state, writer, job, name, at_ms=at_ms, left_ms=left_ms, is_finished=False)
    elif node.lost:
        if job.queued is not None:
            # Its agent may never have started it, and come back: it goes on elsewhere then.
            writer.hold_back(job, lease, name)
        give_up(state, writer, job, name, left_ms=lease.remaining_run_ms, asked=False)


def _note_start(writer: Writer, job: Job, status: LeaseStatusChanged) -> None:
    """Collect the parts of a gang; once all are accepted they may start."""
    lease = job.held_lease()
    if len(lease.parts) == 1 or lease.open_parts[status.node] == status.state:
        return
    lease.open_parts[status.node] = status.state
    writer.changed[job.key] = None
    whole = len(lease.open_parts) == len(lease.parts)
    if lease.may_start or not whole or not lease.says_all(*STARTED):
        return
    lease.may_start = True
    # Agents that started all the same need not be told.
    if not lease.says_all(LeaseState.RUNNING) and job.queued is not None:
        writer.rewrite(job, lease)


def _free(state: PlacementState, writer: Writer, job: Job, status: LeaseStatusChanged) -> None:
    lease = job.held_lease()
    share = lease.share_on(status.node)
    state.devices.release(lease.lease, share)
    writer.end_part(lease.lease, status.node)
    if lease.evicted:
        state.takeovers.leave(job.key, share)
    ran_ms = writer.moment.now_ms - lease.granted_ms
    lease.failed = lease.failed or is_failed_start(status.outcome, ran_ms)
    _close(
        state,
        writer,
        job,
        status.node,
        at_ms=status.at_ms,
        left_ms=status.remaining_run_ms,
        is_finished=status.outcome is LeaseOutcome.FINISHED,
    )


def _stick(state: PlacementState, writer: Writer, job: Job, status: LeaseStatusChanged) -> None:
    """Take that a part has ended though its devices are not seen to be free."""
    finished = status.exit_code == 0 and job.state is JobState.RUNNING
    finished = finished or status.outcome is LeaseOutcome.FINISHED
    left_ms = status.remaining_run_ms
    give_up(state, writer, job, status.node, left_ms=left_ms, asked=True, is_finished=finished)


def _close(
    state: PlacementState,
    writer: Writer,
    job: Job,
    node: str,
    *,
    at_ms: int,
    left_ms: int | None,
    is_finished: bool,
) -> None:
    """Close a part of a lease; with the last one the run ends, else others may have to leave."""
    lease = job.held_lease()
    del lease.open_parts[node]
    lease.drain_said.pop(node, None)
    writer.changed[job.key] = None
    if not is_finished:
        lease.interrupted = True
        lease.unfinished_ms = left_ms if left_ms is None else max(left_ms, lease.unfinished_ms or 0)
    if not lease.open_parts:
        end_run(state, writer, job, at_ms)
    elif not is_finished and not lease.broken:
        # What is left of a gang is of no use; what leaves anyway is not asked again.
        state.unindex(job)
        lease.broken = True
        state.index(job)


def _free_remnant(state: PlacementState, writer: Writer, remnant: Remnant) -> None:
    state.devices.release(remnant.lease, remnant.share)
    state.remnants.remove(remnant)
    writer.note_remnant(remnant)
    writer.end_part(remnant.lease, remnant.share.node)


def _ask(writer: Writer, remnant: Remnant) -> None:
    remnant.asked = True
    writer.note_remnant(remnant)
    writer.outputs.append(
        emit(
            VacateRequested(
                lease=remnant.lease,
                job=remnant.job,
                team=remnant.team,
                reason=VacateReason.DEVICE_WITHDRAWN,
                requested_ms=writer.moment.now_ms,
            )
        )
    )
