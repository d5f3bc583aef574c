"""What the log says of a lease: its parts, the end of their records, the commands of its drain."""

from walras_contracts.drains import DrainCommanded
from walras_contracts.identifiers import lease_part_key
from walras_contracts.work import (
    DrainState,
    DrainStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
)
from walras_node_agent.state import FleetState, Lease
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import Output, emit, tombstone


def take_part(state: FleetState, part: LeaseGranted) -> None:
    """Take a part of a lease, new or written again with another class, limit or pool.

    Usage from the step on carries them, so it is cut where they change.

    Raises
    ------
    InvariantBrokenError
        The part contradicts the lease that runs: another size.
    """
    if part.lease in state.ended:
        return
    lease = state.leases.get(part.lease)
    if lease is None:
        lease = state.leases[part.lease] = Lease.of(part)
    known = lease.sizes_macc.get(part.node)
    if known is not None and known != part.size_macc:
        raise InvariantBrokenError(f"{part.record_key()} changed its size while it was held")
    lease.sizes_macc[part.node] = part.size_macc
    lease.restated = part
    lease.settled = False
    state.changed[part.lease] = None


def end_part(state: FleetState, lease_id: str, node: str) -> list[Output]:
    """Take the end of a part's record.

    Placement ends it after its devices were freed. Should the lease still be here, it has to leave
    at once.

    Returns
    -------
    list
        The end of its status, where the lease is gone already.
    """
    lease = state.leases.get(lease_id)
    if lease is not None:
        lease.records_ended[node] = None
        lease.settled = False
        state.changed[lease_id] = None
        return []
    ended = state.ended.get(lease_id)
    if ended is not None:
        ended.pop(node, None)
        if not ended:
            del state.ended[lease_id]
        state.changed[lease_id] = None
    return [status_ended(lease_id, node)]


def status_ended(lease_id: str, node: str) -> Output:
    """Return the end of the status of a part that is forgotten."""
    return tombstone(LeaseStatusChanged, lease_part_key(lease_id, node), node)


def take_command(state: FleetState, command: DrainCommanded, now_ms: int) -> list[Output]:
    """Take a command; the lease acts on it in this step, once for all of its nodes.

    Returns
    -------
    list
        The answer, where the lease is freed already.
    """
    lease = state.leases.get(command.lease)
    if lease is None:
        return [emit(_freed(command, now_ms))]
    heard = f"{command.session}/{command.command.value}"
    if heard != lease.heard:
        lease.heard = heard
        lease.commands.append(command)
        lease.settled = False
        state.changed[command.lease] = None
    return []


def end_session(state: FleetState, lease_id: str) -> None:
    """Take the end of the command of a drain."""
    lease = state.leases.get(lease_id)
    if lease is not None:
        lease.commands.append(None)
        lease.settled = False


def _freed(command: DrainCommanded, now_ms: int) -> DrainStatusChanged:
    return DrainStatusChanged(
        session=command.session,
        lease=command.lease,
        node=command.node,
        team=command.team,
        pool=command.pool,
        job=command.job,
        state=DrainState.FREED,
        outcome="",
        warned_ms=now_ms,
        at_ms=now_ms,
    )
