"""What capacity remembers: nodes, their totals per type, the supply last published."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from walras_capacity.core import Share, Supply, published, share_of, supply_of
from walras_capacity.heartbeats import CLOCK, Heartbeats
from walras_contracts.capacity import NodeObserved, NodePublished, SupplyPublished
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import StateChange

NEVER_MS: Final = 2**63
NOTHING: Final = Supply(0, (), 0)


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    ``current`` counts; ``coming`` will count from ``coming_ms`` on (market time). A node that only
    its health is known of has neither. ``lost``: its agent has been silent for too long. Leases
    granted up to ``fenced_ms`` do not run on it any more; reports up to the offset ``deaf`` lie
    before that and are not those of an agent that is expected to go on.
    """

    current: NodeObserved | None = None
    coming: NodeObserved | None = None
    coming_ms: int = 0
    unhealthy: tuple[int, ...] = ()
    lost: bool = False
    fenced_ms: int | None = None
    deaf: int = -1


@dataclass(slots=True)
class Totals:
    """Sums over the nodes of a type, in macc."""

    present_macc: int = 0
    withheld_macc: int = 0
    contracted: dict[str, int] = field(default_factory=dict)

    def add(self, share: Share, sign: int) -> None:
        """Add (1) or take away (-1) a node's share."""
        self.present_macc += sign * share.present_macc
        self.withheld_macc += sign * share.withheld_macc
        if share.owner_pool is None:
            return
        macc = self.contracted.get(share.owner_pool, 0) + sign * share.contracted_macc
        self.contracted[share.owner_pool] = macc
        if macc == 0:
            del self.contracted[share.owner_pool]


@dataclass(slots=True)
class CapacityState:
    """Nodes by id; every change of one is added to its type's totals at once."""

    nodes: dict[str, Node] = field(default_factory=dict)
    totals: dict[str, Totals] = field(default_factory=dict)
    heartbeats: Heartbeats = field(default_factory=Heartbeats)
    _supplies: dict[str, SupplyPublished] = field(default_factory=dict)
    _coming: dict[str, None] = field(default_factory=dict)
    _next_coming_ms: int = NEVER_MS
    _touched: dict[str, Node] = field(default_factory=dict)
    """Nodes that changed in this step, as they were before it."""
    _touched_types: dict[str, None] = field(default_factory=dict)

    def node(self, name: str) -> Node:
        """Return a node; an empty one where nothing is known of it."""
        return self.nodes.get(name) or Node()

    def put(self, name: str, node: Node) -> None:
        """Set a node."""
        before = self.node(name)
        self._touched.setdefault(name, before)
        self._count(before, -1)
        self._count(node, 1)
        self._keep(name, node)

    def take_coming(self, market_time_ms: int) -> list[str]:
        """Return the nodes whose coming observation counts from now on, by id."""
        if market_time_ms < self._next_coming_ms:
            return []
        times = {name: self.nodes[name].coming_ms for name in self._coming}
        self._next_coming_ms = min(
            (at_ms for at_ms in times.values() if at_ms > market_time_ms), default=NEVER_MS
        )
        return sorted(name for name, at_ms in times.items() if at_ms <= market_time_ms)

    def take_published(
        self, market_time_ms: int
    ) -> tuple[list[SupplyPublished], list[NodePublished], list[StateChange]]:
        """Return what this step changed: supplies by market, nodes by id, state by key."""
        supplies: list[SupplyPublished] = []
        nodes: list[NodePublished] = []
        changes: dict[str, bytes] = {}
        for name in sorted(self._touched):
            before, node = self._touched[name], self.nodes[name]
            if node == before:
                continue
            changes[f"node/{name}"] = _dump_node(node)
            shown = _shown(node)
            if shown is not None and shown != _shown(before):
                nodes.append(shown)
        for market in sorted(self._touched_types):
            supply = self._supply(market, market_time_ms)
            if supply is not None:
                supplies.append(supply)
                self._supplies[market] = supply
                changes[f"supply/{market}"] = supply.payload()
        self._touched.clear()
        self._touched_types.clear()
        return supplies, nodes, [StateChange(key, changes[key]) for key in sorted(changes)]

    def load(self, key: str, value: bytes) -> None:
        """Take one record of the state topic.

        Raises
        ------
        InvariantBrokenError
            The record is none of capacity's.
        """
        kind, _, name = key.partition("/")
        if kind == "node":
            node = _parse_node(json.loads(value))
            self._count(self.node(name), -1)
            self._count(node, 1)
            self._keep(name, node)
            self._touched_types.clear()
        elif key == CLOCK:
            self.heartbeats.load(value)
        elif kind == "supply":
            self._supplies[name] = SupplyPublished.model_validate_json(value)
        else:
            raise InvariantBrokenError(f"state of capacity has an unknown key {key!r}")

    def _keep(self, name: str, node: Node) -> None:
        self.nodes[name] = node
        if node.coming is None:
            self._coming.pop(name, None)
        else:
            self._coming[name] = None
            self._next_coming_ms = min(self._next_coming_ms, node.coming_ms)

    def _count(self, node: Node, sign: int) -> None:
        if node.current is None:
            return
        market = node.current.type
        share = share_of(node.current, node.unhealthy, lost=node.lost)
        self.totals.setdefault(market, Totals()).add(share, sign)
        self._touched_types[market] = None

    def _supply(self, market: str, market_time_ms: int) -> SupplyPublished | None:
        """Return a market's supply where it differs from the one last published."""
        totals = self.totals[market]
        supply: Supply = supply_of(totals.present_macc, totals.withheld_macc, totals.contracted)
        before = self._supplies.get(market)
        # A type of which there has never been anything is not a market yet.
        known = Supply(before.shared_macc, before.own, before.withheld_macc) if before else NOTHING
        if supply == known:
            return None
        return SupplyPublished(
            market=market,
            shared_macc=supply.shared_macc,
            own=supply.own,
            withheld_macc=supply.withheld_macc,
            market_time_ms=market_time_ms,
        )


def observe(node: Node, observed: NodeObserved, counts_ms: int | None) -> Node:
    """Return the node after an observation; ``counts_ms``: None where it counts at once."""
    if counts_ms is None:
        return replace(node, current=observed, coming=None, coming_ms=0)
    return replace(node, coming=observed, coming_ms=counts_ms)


def _shown(node: Node) -> NodePublished | None:
    if node.current is None:
        return None
    return published(node.current, node.unhealthy, lost=node.lost, fenced_ms=node.fenced_ms)


def _dump_node(node: Node) -> bytes:
    document = {
        "current": node.current and node.current.model_dump(mode="json"),
        "coming": node.coming and node.coming.model_dump(mode="json"),
        "coming_ms": node.coming_ms,
        "unhealthy": node.unhealthy,
        "lost": node.lost,
        "fenced_ms": node.fenced_ms,
        "deaf": node.deaf,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _parse_node(document: Mapping[str, Any]) -> Node:
    current, coming = (
        None if document[name] is None else NodeObserved.model_validate(document[name])
        for name in ("current", "coming")
    )
    return Node(
        current,
        coming,
        document["coming_ms"],
        tuple(document["unhealthy"]),
        document["lost"],
        document["fenced_ms"],
        document["deaf"],
    )
