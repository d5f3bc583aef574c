"""The flat pool of devices of each type: which exist, who holds them, which are free.

Everything is kept sorted, so that the same holdings give the same choice whatever happened before:
a restored pool equals one that was never lost.
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from walras_contracts.capacity import NodePublished, NodeState
from walras_runtime.errors import InvariantBrokenError


@dataclass(frozen=True, slots=True)
class Share:
    """Devices of one node, and what they are worth together (macc).

    Devices are held whole: a job that does not fill its last one has it to itself and counts with
    all of it, for quota and on the bill.
    """

    node: str
    devices: tuple[int, ...]
    size_macc: int

    @property
    def macc_per_device(self) -> int:
        """Size of each device when they were given."""
        return self.size_macc // len(self.devices)


def occupied_macc(shares: Iterable[Share]) -> int:
    """Return what shares hold together, whole devices."""
    return sum(share.size_macc for share in shares)


@dataclass(frozen=True, slots=True)
class _Hold:
    """Who holds a device, and as what it was given."""

    lease: str
    type: str
    macc: int


@dataclass(slots=True)
class _Node:
    type: str = ""
    macc_per_device: int = 0
    usable: frozenset[int] = frozenset()
    free: list[int] = field(default_factory=list)
    held: dict[int, _Hold] = field(default_factory=dict)

    def is_sound(self, device: int) -> bool:
        """Whether a held device may still be used as what it was given as."""
        hold = self.held[device]
        same = hold.type == self.type and hold.macc == self.macc_per_device
        return same and device in self.usable


class DevicePool:
    """All nodes, their usable devices, and the leases that hold them.

    A device is free when its node is active, it is not withheld, and no lease holds it. Devices
    that were withdrawn while a lease held them stay held until they are released; so do those whose
    node is of another type now, or has devices of another size.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._of_type: dict[str, dict[str, _Node]] = {}
        self.present_macc: dict[str, int] = {}
        """Usable devices by type, held or not."""
        self.free_macc: dict[str, int] = {}
        self._spoilt: dict[str, None] = {}

    def put(self, node_id: str, published: NodePublished | None) -> None:
        """Take what a node is now; None: it is gone."""
        node = self._nodes.setdefault(node_id, _Node())
        self._count(node, -1)
        self._of_type.get(node.type, {}).pop(node_id, None)
        usable: frozenset[int] = frozenset()
        if published is not None:
            node.type = published.type
            node.macc_per_device = published.macc_per_device
            if published.state is NodeState.ACTIVE and published.macc_per_device:
                usable = frozenset(range(published.devices)).difference(published.withheld_devices)
        node.usable = usable
        node.free = sorted(usable.difference(node.held))
        self._judge(node_id, node)
        if not usable and not node.held:
            del self._nodes[node_id]
        elif node.type:
            self._of_type.setdefault(node.type, {})[node_id] = node
            self._count(node, 1)

    def hold(self, lease: str, kind: str, shares: Iterable[Share]) -> None:
        """Give devices of a type to a lease.

        Raises
        ------
        InvariantBrokenError
            Another lease holds one of them.
        """
        for share in shares:
            # After a restart a lease may hold devices of a node that is not published any more.
            node = self._nodes.setdefault(share.node, _Node())
            given = _Hold(lease, kind, share.macc_per_device)
            for device in share.devices:
                if device in node.held:
                    raise InvariantBrokenError(
                        f"device {device} of {share.node} is held by {node.held[device].lease}, "
                        f"not free for {lease}"
                    )
                node.held[device] = given
                if device in node.usable:
                    node.free.remove(device)
                    self.free_macc[node.type] -= node.macc_per_device
            self._judge(share.node, node)

    def release(self, lease: str, share: Share) -> None:
        """Take back a share that its agent verified as free.

        Raises
        ------
        InvariantBrokenError
            The lease does not hold it.
        """
        node = self._nodes.get(share.node)
        for device in share.devices:
            if node is None or device not in node.held or node.held[device].lease != lease:
                raise InvariantBrokenError(f"{lease} does not hold device {device} of {share.node}")
            del node.held[device]
            if device in node.usable:
                insort(node.free, device)
                self.free_macc[node.type] += node.macc_per_device
        if node is not None:
            self._judge(share.node, node)
            if not node.usable and not node.held:
                del self._nodes[share.node]
                self._of_type.get(node.type, {}).pop(share.node, None)

    def withdrawn(self) -> dict[str, None]:
        """Return the leases that hold a device which they may no longer use."""
        return {
            self._nodes[name].held[device].lease: None
            for name in sorted(self._spoilt)
            for device in sorted(self._nodes[name].held)
            if not self._nodes[name].is_sound(device)
        }

    def check(self) -> None:
        """Compare the pool with its parts.

        Raises
        ------
        InvariantBrokenError
            More is held and free than exists.
        """
        for kind, present in self.present_macc.items():
            counted = 0
            for node in self._of_type.get(kind, {}).values():
                held = sum(1 for device in node.held if device in node.usable)
                counted += (held + len(node.free)) * node.macc_per_device
            if counted != present or not 0 <= self.free_macc[kind] <= present:
                raise InvariantBrokenError(
                    f"{kind}: {counted} macc held and free, {present} present"
                )

    def draft(self) -> "Draft":
        """Return a copy to plan on."""
        return Draft(self)

    def _judge(self, node_id: str, node: _Node) -> None:
        if all(node.is_sound(device) for device in node.held):
            self._spoilt.pop(node_id, None)
        else:
            self._spoilt[node_id] = None

    def _count(self, node: _Node, sign: int) -> None:
        if node.type:
            present = self.present_macc.get(node.type, 0)
            free = self.free_macc.get(node.type, 0)
            self.present_macc[node.type] = present + sign * len(node.usable) * node.macc_per_device
            self.free_macc[node.type] = free + sign * len(node.free) * node.macc_per_device


class Draft:
    """What is left of the pool while a plan is made; the pool itself is not touched."""

    def __init__(self, pool: DevicePool) -> None:
        self._pool = pool
        self._free: dict[str, list[int]] = {}
        self.free_macc = dict(pool.free_macc)
        self.present_macc = pool.present_macc
        self._sizes: dict[str, tuple[int, ...]] = {}

    def take(self, kind: str, size_macc: int) -> tuple[Share, ...] | None:
        """Choose free devices of a type for a whole job, on few nodes; take them.

        The tightest single node that has room is taken; without one, the emptiest nodes first and
        the tightest for the rest. Ties go by node id, devices by index.

        Returns
        -------
        tuple or None
            Shares in node order; None where too little is free.
        """
        if size_macc > self.free_macc.get(kind, 0):
            return None
        room = []
        for name, node in self._pool._of_type[kind].items():  # noqa: SLF001 - one module
            free = self._free.get(name, node.free)
            if free:
                room.append((len(free) * node.macc_per_device, name))
        shares: list[Share] = []
        left = size_macc
        while left > 0:
            fitting = [place for place in room if place[0] >= left]
            place = min(fitting) if fitting else min(room, key=_emptiest_first)
            room.remove(place)
            share = self._cut(place[1], left)
            shares.append(share)
            left -= share.size_macc
        return tuple(sorted(shares, key=_by_node))

    def whole_macc(self, kind: str, size_macc: int) -> int:
        """Return what a job of a size occupies of a type: whole devices.

        Where devices of a type differ in size, the one that rounds up most counts; of a type that
        does not exist nothing is rounded.
        """
        sizes = self._sizes.get(kind)
        if sizes is None:
            nodes = self._pool._of_type.get(kind, {}).values()  # noqa: SLF001 - one module
            found = {node.macc_per_device for node in nodes if node.usable}
            sizes = self._sizes[kind] = tuple(sorted(found))
        return max((-(-size_macc // macc) * macc for macc in sizes), default=size_macc)

    def put_back(self, shares: Iterable[Share]) -> None:
        """Undo the taking of shares."""
        for share in shares:
            node = self._pool._nodes[share.node]  # noqa: SLF001 - one module
            self._free[share.node] = sorted((*self._free[share.node], *share.devices))
            self.free_macc[node.type] += share.size_macc

    def _cut(self, name: str, wanted_macc: int) -> Share:
        node = self._pool._nodes[name]  # noqa: SLF001 - one module
        free = self._free.get(name, node.free)
        count = min(len(free), -(-wanted_macc // node.macc_per_device))
        self._free[name] = free[count:]
        size_macc = count * node.macc_per_device
        self.free_macc[node.type] -= size_macc
        return Share(name, tuple(free[:count]), size_macc)


def _emptiest_first(place: tuple[int, str]) -> tuple[int, str]:
    return -place[0], place[1]


def _by_node(share: Share) -> str:
    return share.node
