"""Nodes as placement may use them, and how much of each market they carry is held."""

from dataclasses import dataclass

from walras_contracts.capacity import NodePublished, NodeState
from walras_contracts.quantities import PPM
from walras_drain.lease_table import Holding, LeaseTable

EMPTYING = (NodeState.DRAINING, NodeState.OFF)
"""What runs on a node in these states has to go."""


@dataclass(slots=True)
class Use:
    """Of a market, in macc: what its usable nodes have, and what leases hold there."""

    present_macc: int = 0
    held_macc: int = 0

    def reaches(self, threshold_ppm: int, *, less_macc: int = 0) -> bool:
        """Whether the use, less what is leaving, has come to a part of what is present."""
        held_macc = self.held_macc - less_macc
        return self.present_macc > 0 and held_macc * PPM >= threshold_ppm * self.present_macc

    def ppm(self) -> int:
        """Return the use in millionths, rounded down."""
        return self.held_macc * PPM // self.present_macc if self.present_macc else 0


class NodeTable:
    """Nodes by id; ``touched`` are those of this step, as they were before it."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodePublished] = {}
        self.touched: dict[str, NodePublished | None] = {}
        self.emptying: dict[str, None] = {}
        self.markets: dict[str, Use] = {}
        self._shares: dict[str, tuple[str, int, int]] = {}
        self._stale: dict[str, None] = {}

    def put(self, name: str, node: NodePublished | None) -> None:
        """Take the latest record of a node; None: there is none any more."""
        self.touched.setdefault(name, self.nodes.get(name))
        self._stale[name] = None
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node
        if node is not None and node.state in EMPTYING:
            self.emptying[name] = None
        else:
            self.emptying.pop(name, None)

    def forget_changes(self) -> None:
        """Begin anew with what a step changes."""
        self.touched.clear()

    def is_lost(self, name: str) -> bool:
        """Whether a node's agent has been silent for too long."""
        node = self.nodes.get(name)
        return node is not None and node.lost

    def is_urgent(self, name: str) -> bool:
        """Whether a node is to be emptied, whatever runs there."""
        node = self.nodes.get(name)
        return node is not None and node.urgent and name in self.emptying

    def counted_macc(self, lease: Holding) -> int:
        """Return what a lease holds on nodes that count: so much less is held when it leaves."""
        return sum(size for node, size in lease.sizes_macc.items() if node in self._shares)

    def recount(self, leases: LeaseTable) -> None:
        """Count the nodes anew whose record or whose leases changed."""
        stale = {**self._stale, **leases.stale_nodes}
        self._stale.clear()
        leases.stale_nodes.clear()
        for name in stale:
            before = self._shares.pop(name, None)
            if before is not None:
                market, present_macc, node_macc = before
                use = self.markets[market]
                use.present_macc -= present_macc
                use.held_macc -= node_macc
            node = self.nodes.get(name)
            if node is None or node.state is not NodeState.ACTIVE or node.lost:
                continue
            usable = node.devices - len(node.withheld_devices)
            share = (node.type, usable * node.macc_per_device, leases.node_macc.get(name, 0))
            self._shares[name] = share
            use = self.markets.setdefault(node.type, Use())
            use.present_macc += share[1]
            use.held_macc += share[2]
