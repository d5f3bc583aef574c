"""Nodes as JSON: quantities in devices and thousandths, times in milliseconds."""

from typing import Any

from walras.nodes.reading import Nodes, NodeView


def nodes_document(nodes: Nodes) -> dict[str, Any]:
    """Return nodes for ``--json``; what is not known is null."""
    return {
        "barrier": None if nodes.barrier is None else nodes.barrier.number,
        "market_time_ms": nodes.now_ms,
        "nodes": [node_document(nodes, view) for view in nodes.nodes],
    }


def node_document(nodes: Nodes, view: NodeView) -> dict[str, Any]:
    """Return one node."""
    devices, coming = view.devices, view.coming
    return {
        **view.node.model_dump(mode="json"),
        "free": devices.free,
        "held": devices.held,
        "withheld": devices.withheld,
        "silent_ms": nodes.silent_ms(view),
        "coming_state": None if coming is None else coming.state.value,
        "drain": None if view.drain is None else view.drain.model_dump(mode="json"),
        "leases": [
            {
                "lease": part.lease,
                "team": part.team,
                "job": part.job,
                "work_class": part.work_class.value,
                "devices": list(part.devices),
                "size_macc": part.size_macc,
            }
            for part in view.leases
        ],
        "sessions": [session.model_dump(mode="json") for session in view.sessions],
    }
