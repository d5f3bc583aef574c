"""The devices of all nodes: which exist, who holds them, who waits for them, which are open.

What is kept follows from the nodes, the holdings and the reservations alone, so a restored pool
equals one that was never lost.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from walras_contracts.capacity import NodePublished, NodeState
from walras_placement.nodes import LEAVES_AT_ONCE, Hold, Node, check_node
from walras_placement.shares import Share
from walras_placement.topology import Places
from walras_runtime.errors import InvariantBrokenError


@dataclass(slots=True)
class Counts:
    """What of a type is held and reserved, in macc."""

    held: int = 0
    """By runs that go on, wherever the devices are now."""
    remnant: int = 0
    held_usable: int = 0
    """Of the usable devices, by whomever."""
    reserved_usable: int = 0
    """Of the usable devices, free and reserved."""


Shape = tuple[int, int, tuple[int, ...]]
"""Of a type: usable macc, that of its largest domain, the sizes of its devices."""
NO_SHAPE: Shape = (0, 0, ())


class DevicePool:
    """All nodes, their devices, and the leases and reservations that hold them.

    A device is open when its node is active and not lost, it is not withheld, no lease holds it and
    no job has it reserved. Devices that were withdrawn while a lease held them stay held until they
    are released; so do those whose node is of another type now, or has devices of another size.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.places: dict[str, Places] = {}
        self.counts: dict[str, Counts] = {}
        self._sizes: dict[str, dict[int, int]] = {}
        self._published: dict[str, int] = {}
        """How many nodes of each type are published."""
        self._shapes: dict[str, Shape] = {}
        self._spoilt: dict[str, None] = {}
        self._put: dict[str, None] = {}
        self._touched: dict[str, None] = {}
        self._reshaped: dict[str, None] = {}
        self._opened: dict[str, None] = {}
        self._awaited: dict[str, None] = {}

    def put(self, node_id: str, published: NodePublished | None) -> None:
        """Take what a node is now; None: it is gone."""
        node = self.nodes.setdefault(node_id, Node())
        self._count_node(node_id, node, -1)
        node.sound = node.usable = frozenset()
        node.lost, node.fenced_ms = False, None
        node.known = published is not None
        if published is not None:
            node.type = published.type
            node.domain = (published.cell, published.domain or "")
            node.macc_per_device = published.macc_per_device
            node.lost, node.fenced_ms = published.lost, published.fenced_ms
            if published.state not in LEAVES_AT_ONCE and published.macc_per_device:
                present = frozenset(range(published.devices))
                node.sound = present.difference(published.withheld_devices)
            if published.state is NodeState.ACTIVE and not published.lost:
                node.usable = node.sound
        node.open = sorted(node.usable.difference(node.held).difference(node.reserved))
        self._count_node(node_id, node, 1)
        self._judge(node_id, node)
        self._put[node_id] = self._touched[node_id] = None
        self._drop_if_nothing(node_id, node)

    def hold(
        self, lease: str, kind: str, shares: Iterable[Share], *, is_remnant: bool = False
    ) -> None:
        """Give devices of a type to a lease.

        Raises
        ------
        InvariantBrokenError
            Another lease holds one of them, or it is reserved for a job.
        """
        counts = self.counts.setdefault(kind, Counts())
        for share in shares:
            # After a restart a lease may hold devices of a node that is not published any more.
            node = self.nodes.setdefault(share.node, Node())
            given = Hold(lease, kind, share.macc_per_device, not is_remnant)
            before_macc = len(node.open) * node.macc_per_device
            for device in share.devices:
                if device in node.held:
                    raise InvariantBrokenError(
                        f"device {device} of {share.node} is held by {node.held[device].lease}, "
                        f"not free for {lease}"
                    )
                if device in node.reserved:
                    raise InvariantBrokenError(
                        f"device {device} of {share.node} is reserved for "
                        f"{node.reserved[device]}, not free for {lease}"
                    )
                node.held[device] = given
                if not node.goes_on(device):
                    self._spoilt[share.node] = None
                if device in node.usable:
                    del node.open[bisect_left(node.open, device)]
                    self.counts[node.type].held_usable += node.macc_per_device
            self._moved(share.node, node, before_macc)
            if is_remnant:
                counts.remnant += share.size_macc
            else:
                counts.held += share.size_macc

    def release(self, lease: str, share: Share) -> None:
        """Take back a share that is verified as free.

        Raises
        ------
        InvariantBrokenError
            The lease does not hold it.
        """
        node = self.nodes.get(share.node)
        if node is None:
            raise InvariantBrokenError(f"{lease} holds devices of {share.node}, which is unknown")
        before_macc = len(node.open) * node.macc_per_device
        for device in share.devices:
            hold = node.held.get(device)
            if hold is None or hold.lease != lease:
                raise InvariantBrokenError(f"{lease} does not hold device {device} of {share.node}")
            del node.held[device]
            counts = self.counts[hold.type]
            if hold.live:
                counts.held -= hold.macc
            else:
                counts.remnant -= hold.macc
            self._opened[hold.type] = None
            job = node.reserved.get(device)
            if job is not None:
                self._awaited[job] = None
            if device in node.usable:
                own = self.counts[node.type]
                own.held_usable -= node.macc_per_device
                if job is None:
                    insort(node.open, device)
                else:
                    own.reserved_usable += node.macc_per_device
        self._moved(share.node, node, before_macc)
        self._drop_if_nothing(share.node, node)

    def abandon(self, lease: str, share: Share) -> None:
        """Note that no run uses a share any more, though its devices are still held."""
        node = self.nodes[share.node]
        for device in share.devices:
            hold = node.held[device]
            node.held[device] = Hold(lease, hold.type, hold.macc, live=False)
            counts = self.counts[hold.type]
            counts.held -= hold.macc
            counts.remnant += hold.macc
            self._opened[hold.type] = None
            if device in node.reserved:
                self._awaited[node.reserved[device]] = None

    def reserve(self, job: str, shares: Iterable[Share]) -> None:
        """Keep devices for a job: open ones, and held ones that become free.

        Raises
        ------
        InvariantBrokenError
            Another job has one of them reserved, or it is not usable.
        """
        for share in shares:
            # After a restart the node may be gone; whether it is valid is looked at in the step.
            node = self.nodes.setdefault(share.node, Node())
            before_macc = len(node.open) * node.macc_per_device
            for device in share.devices:
                if device in node.reserved:
                    raise InvariantBrokenError(
                        f"device {device} of {share.node} is reserved for {node.reserved[device]}, "
                        f"not open for {job}"
                    )
                node.reserved[device] = job
                if device in node.usable and device not in node.held:
                    del node.open[bisect_left(node.open, device)]
                    self.counts[node.type].reserved_usable += node.macc_per_device
            self._moved(share.node, node, before_macc)

    def unreserve(self, job: str, kind: str, shares: Iterable[Share]) -> None:
        """Give up what a job has reserved of a type."""
        self._opened[kind] = None
        for share in shares:
            node = self.nodes[share.node]
            before_macc = len(node.open) * node.macc_per_device
            for device in share.devices:
                if node.reserved.pop(device, None) != job:
                    raise InvariantBrokenError(
                        f"device {device} of {share.node} is not reserved for {job}"
                    )
                if device in node.usable and device not in node.held:
                    insort(node.open, device)
                    self.counts[node.type].reserved_usable -= node.macc_per_device
            self._moved(share.node, node, before_macc)
            self._drop_if_nothing(share.node, node)

    def withdrawn(self) -> dict[str, None]:
        """Return the leases that hold a device which they may no longer use."""
        return {
            node.held[device].lease: None
            for name in sorted(self._spoilt)
            for node in (self.nodes[name],)
            for device in sorted(node.held)
            if not node.goes_on(device)
        }

    def startable_macc(self, kind: str) -> int:
        """Return how much of a type may be started before what is held exceeds what there is.

        Negative where it does so already: then nothing starts, whatever is open (O18).
        Work that still runs on withdrawn devices counts, as its team has other quota in their
        place; remnants do not, as no quota stands for them.
        """
        counts = self.counts.get(kind)
        places = self.places.get(kind)
        if counts is None or places is None:
            return 0
        return places.usable_macc - counts.held - counts.reserved_usable

    def kinds(self) -> set[str]:
        """Return the types of which there are nodes, or of which something is held.

        Not those of which there were some: a stage that is restored does not know of them.
        """
        held = {kind for kind, counts in self.counts.items() if counts != Counts()}
        return held | {kind for kind, nodes in self._published.items() if nodes}

    def shape(self, kind: str) -> Shape:
        """Return what may be used of a type at all."""
        found = self._shapes.get(kind)
        if found is None:
            places = self.places.get(kind)
            if places is None:
                return NO_SHAPE
            sizes = tuple(sorted(self._sizes.get(kind, ())))
            found = self._shapes[kind] = (places.usable_macc, places.largest_macc(), sizes)
        return found

    def whole_macc(self, kind: str, size_macc: int) -> int:
        """Return what a job of a size occupies of a type: whole devices.

        Where devices of a type differ in size, the one that rounds up most counts; of a type that
        does not exist nothing is rounded.
        """
        sizes = self.shape(kind)[2]
        if len(sizes) == 1:
            return -(-size_macc // sizes[0]) * sizes[0]
        return max((-(-size_macc // macc) * macc for macc in sizes), default=size_macc)

    def leases_on(self, node_id: str) -> list[str]:
        """Return who holds devices of a node."""
        node = self.nodes.get(node_id)
        return [] if node is None else sorted({hold.lease for hold in node.held.values()})

    def take_put(self) -> list[str]:
        """Return the nodes that were put since the last call, by name."""
        taken = sorted(self._put)
        self._put.clear()
        return taken

    def take_opened(self) -> list[str]:
        """Return the types of which more can be given, since the last call."""
        taken = sorted(self._opened)
        self._opened.clear()
        return taken

    def take_awaited(self) -> list[str]:
        """Return the jobs of whose reserved devices one changed, since the last call."""
        taken = sorted(self._awaited)
        self._awaited.clear()
        return taken

    def take_reshaped(self) -> list[str]:
        """Return the types of which a node changed, since the last call."""
        taken = sorted(self._reshaped)
        self._reshaped.clear()
        return taken

    def check_started(self, kinds: Iterable[str]) -> None:
        """Check that what was started does not bring what is held above what there is.

        Raises
        ------
        InvariantBrokenError
            More of one of the types is held than may be used.
        """
        for kind in kinds:
            held_macc, usable_macc = self.counts[kind].held, self.places[kind].usable_macc
            if held_macc > usable_macc:
                raise InvariantBrokenError(
                    f"{kind}: {held_macc} macc held after a start, {usable_macc} usable"
                )

    def check_touched(self) -> None:
        """Compare the nodes that anything happened to, and the sums of all types.

        Raises
        ------
        InvariantBrokenError
            More is held, reserved and open than exists.
        """
        for name in sorted(self._touched):
            if name in self.nodes:
                check_node(name, self.nodes[name])
        self._touched.clear()
        for kind, places in self.places.items():
            counts = self.counts[kind]
            used = counts.held_usable + counts.reserved_usable
            if used + places.open_macc != places.usable_macc or min(used, places.open_macc) < 0:
                raise InvariantBrokenError(
                    f"{kind}: {counts.held_usable} macc held, {counts.reserved_usable} reserved, "
                    f"{places.open_macc} open of {places.usable_macc}"
                )

    def check(self) -> None:
        """Compare all nodes and all sums with each other.

        Raises
        ------
        InvariantBrokenError
            They do not agree.
        """
        self._touched.update(dict.fromkeys(self.nodes))
        self.check_touched()
        for kind, places in self.places.items():
            nodes = [node for node in self.nodes.values() if node.type == kind]
            open_macc = sum(len(node.open) * node.macc_per_device for node in nodes)
            if open_macc != places.open_macc:
                raise InvariantBrokenError(
                    f"{kind}: {open_macc} macc open on nodes, {places.open_macc} counted"
                )

    def _judge(self, node_id: str, node: Node) -> None:
        if all(map(node.goes_on, node.held)):
            self._spoilt.pop(node_id, None)
        else:
            self._spoilt[node_id] = None

    def _moved(self, node_id: str, node: Node, before_macc: int) -> None:
        """Follow a change of what is open on a node."""
        self._touched[node_id] = None
        after_macc = len(node.open) * node.macc_per_device
        if before_macc != after_macc:
            self.places[node.type].change(node.domain, node_id, before_macc, after_macc)
            if after_macc > before_macc:
                self._opened[node.type] = None
        if node_id in self._spoilt:
            self._judge(node_id, node)

    def _count_node(self, node_id: str, node: Node, sign: int) -> None:
        """Add a node to the totals of its type, or take it away."""
        if not node.type:
            return
        places = self.places.setdefault(node.type, Places())
        counts = self.counts.setdefault(node.type, Counts())
        macc = node.macc_per_device
        open_macc = len(node.open) * macc
        if node.known:
            self._published[node.type] = self._published.get(node.type, 0) + sign
        if sign > 0:
            places.change_usable(node.domain, len(node.usable) * macc)
            places.change(node.domain, node_id, 0, open_macc)
        else:
            places.change(node.domain, node_id, open_macc, 0)
            places.change_usable(node.domain, -len(node.usable) * macc)
        held = sum(1 for device in node.held if device in node.usable)
        counts.held_usable += sign * held * macc
        reserved = sum(1 for d in node.reserved if d in node.usable and d not in node.held)
        counts.reserved_usable += sign * reserved * macc
        if node.usable:
            sizes = self._sizes.setdefault(node.type, {})
            sizes[macc] = sizes.get(macc, 0) + sign
            if not sizes[macc]:
                del sizes[macc]
        self._shapes.pop(node.type, None)
        self._reshaped[node.type] = self._opened[node.type] = None

    def _drop_if_nothing(self, node_id: str, node: Node) -> None:
        if not (node.known or node.held or node.reserved):
            del self.nodes[node_id]
            self._spoilt.pop(node_id, None)
