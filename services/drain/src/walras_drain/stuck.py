"""What drains that do not end cost the platform (R16): nobody uses it, and nobody pays for it."""

from dataclasses import dataclass
from typing import Final

from walras_contracts.drains import NodeDrainState
from walras_drain.state import DrainServiceState

NODES: Final = "node"
"""Nodes that are not empty although their time is over."""
PARTS: Final = "part"
"""Parts of leases that have ended, whose devices are not seen free."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """How many are stuck, and how much is held on them, in macc."""

    count: int = 0
    macc: int = 0


def stuck_now(state: DrainServiceState) -> dict[str, Stuck]:
    """Return what is stuck: nodes, and parts of leases, wherever they are."""
    nodes = [n for n, e in sorted(state.emptying.items()) if e.state is NodeDrainState.STUCK]
    held = state.leases.node_macc
    leases = state.leases.leases
    sizes = [
        leases[lease].sizes_macc.get(node, 0) for lease, node in state.stuck if lease in leases
    ]
    return {
        NODES: Stuck(len(nodes), sum(held.get(node, 0) for node in nodes)),
        PARTS: Stuck(len(state.stuck), sum(sizes)),
    }


def passed_ms(last_ms: int | None, now_ms: int, interval_ms: int) -> int:
    """Return the market time of a step; of a hole two intervals count, as for every timer."""
    if last_ms is None:
        return 0
    return max(0, min(now_ms - last_ms, 2 * interval_ms))
