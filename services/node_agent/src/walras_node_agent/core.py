"""What grants and vacates do to a lease (simple form: the drain service takes the latter over)."""

from walras_contracts.drains import VacateRequested
from walras_contracts.work import LeaseGranted
from walras_node_agent.state import FleetState, Lease
from walras_runtime.errors import InvariantBrokenError


def take_part(state: FleetState, part: LeaseGranted) -> None:
    """Take a part of a lease, new or written again with another class, limit or pool.

    Usage from the step's window on carries them, so it is cut where they change.

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
    lease.work_class = part.work_class
    lease.limit_micro = part.limit_micro
    lease.pool = part.pool
    lease.templates.clear()
    state.changed[part.lease] = None


def end_part(state: FleetState, lease_id: str, node: str) -> bool:
    """Take the end of a part's record.

    Placement ends it after its devices were freed. Should the lease still be here, it has to leave
    at once.

    Returns
    -------
    bool
        Whether the lease is gone already, so that its status can be forgotten, too.
    """
    lease = state.leases.get(lease_id)
    if lease is not None:
        _ask_to_leave(state, lease, 0)
        return False
    ended = state.ended.get(lease_id)
    if ended is not None:
        ended.pop(node, None)
        if not ended:
            del state.ended[lease_id]
        state.changed[lease_id] = None
    return True


def take_vacate(state: FleetState, vacate: VacateRequested) -> None:
    """Take a request to leave; the first one counts, and one for a lease that ended does not."""
    lease = state.leases.get(vacate.lease)
    if lease is not None:
        _ask_to_leave(state, lease, vacate.requested_ms)


def _ask_to_leave(state: FleetState, lease: Lease, vacate_ms: int) -> None:
    if lease.vacate_ms is None or vacate_ms < lease.vacate_ms:
        lease.vacate_ms = vacate_ms
        lease.templates.clear()
        state.changed[lease.lease] = None
