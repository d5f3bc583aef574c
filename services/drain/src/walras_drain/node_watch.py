"""Nodes that fall silent or are being emptied: what sessions, teams and the log are told."""

from walras_contracts.drains import NodeDrainChanged, NodeDrainState
from walras_drain import notices, sessions
from walras_drain.core import carry_out
from walras_drain.lease_table import Holding
from walras_drain.low_use import PREFIX as LOW
from walras_drain.maintenance import PREFIX as NODE
from walras_drain.maintenance import Emptying, Occupant, progress
from walras_drain.occupancy import EMPTYING
from walras_drain.state import DrainServiceState
from walras_drain.writing import Writer


def follow_lost_nodes(state: DrainServiceState, writer: Writer) -> None:
    """Tell the sessions of nodes that were lost, or are back, and the teams of lost ones."""
    for node in sorted(state.nodes.touched):
        before = state.nodes.touched[node]
        was_lost, is_lost = before is not None and before.lost, state.nodes.is_lost(node)
        if was_lost is is_lost:
            continue
        happens = sessions.node_lost if is_lost else sessions.node_back
        for session in state.sessions.open_on_node(node):
            carry_out(state, writer, session, happens(session, node, writer.now_ms))
        if is_lost:
            leases = state.leases.on_node(node)
            for team, count in _by_team(leases).items():
                writer.tell_once(notices.node_lost(node, team, count, writer.now_ms))
            for lease in leases:
                state.low_use.busy(lease.lease, node)


def follow_emptying(state: DrainServiceState, writer: Writer) -> None:
    """Publish how far the emptying of nodes has come; end it where a node is not emptied any more.

    A node that is off without ever having been emptied is none of it, unless something runs there.
    """
    for node in sorted({**state.emptying, **state.nodes.emptying}):
        published = state.nodes.nodes.get(node)
        before = state.emptying.get(node)
        if published is None or published.state not in EMPTYING:
            key = state.emptying.pop(node).shown(node, writer.now_ms).record_key()
            writer.keep(NODE + node, None)
            writer.end(NodeDrainChanged, key, node)
            continue
        occupants = occupants_of(state, node)
        if before is None and not occupants and published.state is not EMPTYING[0]:
            continue
        after = progress(
            before,
            occupants,
            urgent=published.urgent,
            within_ms=published.drain_within_ms,
            now_ms=writer.now_ms,
        )
        if after.state is NodeDrainState.STUCK and not after.escalated:
            after = _escalate(state, writer, node, after)
        if after != before:
            state.emptying[node] = after
            writer.keep(NODE + node, after.dump())
            writer.tell(after.shown(node, writer.now_ms))


def occupants_of(state: DrainServiceState, node: str) -> list[Occupant]:
    """Return who has a part on a node. What is broken does not stand in the way of its emptying."""
    return [
        Occupant(lease.lease, lease.team, lease.job, lease.is_drainable or state.is_broken(lease))
        for lease in state.leases.on_node(node)
    ]


def keep_low_use(state: DrainServiceState, writer: Writer) -> None:
    """Keep which leases are low in the own state, as far as it changed."""
    for lease in sorted(state.low_use.changed):
        low = state.low_use.leases.get(lease)
        writer.keep(LOW + lease, None if low is None else low.dump())
    state.low_use.changed.clear()


def _escalate(state: DrainServiceState, writer: Writer, node: str, emptying: Emptying) -> Emptying:
    shown = emptying.shown(node, writer.now_ms)
    for team, count in _by_team(state.leases.on_node(node)).items():
        writer.tell_once(notices.escalated(shown, team, count, writer.now_ms))
    return emptying.told()


def _by_team(leases: list[Holding]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for lease in sorted(leases, key=lambda lease: lease.team):
        counts[lease.team] = counts.get(lease.team, 0) + 1
    return counts
