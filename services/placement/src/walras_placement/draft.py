"""What is left of the devices while a plan is made; the pool itself is not touched."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from walras_placement.devices import DevicePool
from walras_placement.nodes import Node
from walras_placement.shares import Share, by_node, occupied_macc
from walras_placement.topology import DomainKey, Places

NOWHERE = Places()
Opened = list[tuple[str, list[int]]]
"""Devices by node."""


class Draft:
    """Open devices by node and domain, and how much of each type may be started.

    Parameters
    ----------
    pool
        What is planned on.
    """

    def __init__(self, pool: DevicePool) -> None:
        self.pool = pool
        self._places: dict[str, Places] = {}
        self._open: dict[str, list[int]] = {}
        self._startable: dict[str, int] = {}
        self._failed: dict[tuple[str, bool], int] = {}
        """From which size on nothing of a type was found, for gangs or not; less is open since."""

    def open_macc(self, kind: str) -> int:
        """Return how much of a type is open."""
        return self._draft_or_pool(kind).open_macc

    def startable_macc(self, kind: str) -> int:
        """Return how much of a type may be started before more is held than there is."""
        found = self._startable.get(kind)
        return self.pool.startable_macc(kind) if found is None else found

    def open_on(self, node: str) -> list[int]:
        """Return the open devices of a node, ascending."""
        found = self._open.get(node)
        return self.pool.nodes[node].open if found is None else found

    def nodes_of(self, kind: str, key: DomainKey) -> list[str]:
        """Return the nodes of a domain with anything open."""
        domain = self._draft_or_pool(kind).domains.get(key)
        return [] if domain is None else [n for names in domain.levels.values() for n in names]

    def domain_open_macc(self, kind: str, key: DomainKey) -> int:
        """Return how much of a domain is open."""
        domain = self._draft_or_pool(kind).domains.get(key)
        return 0 if domain is None else domain.open_macc

    def take(self, kind: str, size_macc: int, *, gang: bool = True) -> tuple[Share, ...] | None:
        """Choose open devices of a type for a whole job; take them.

        The tightest single node that has room, else the domain that is left most whole
        (:mod:`walras_placement.topology`). A job that is no gang may span domains, where none has
        room for it. Devices go by index.

        Returns
        -------
        tuple or None
            Shares in node order; None where too little is open, or it is not together.
        """
        if size_macc > self.startable_macc(kind) or size_macc > self.open_macc(kind):
            return None
        failed_macc = self._failed.get((kind, gang))
        if failed_macc is not None and size_macc >= failed_macc:
            return None
        names = _nodes_for(self._draft_or_pool(kind), size_macc, gang=gang)
        if names is None:
            self._failed[kind, gang] = size_macc
            return None
        shares: list[Share] = []
        left = size_macc
        for name in names:
            share = self._cut(name, left)
            shares.append(share)
            left -= share.size_macc
        taken = by_node(shares)
        self._start(kind, -occupied_macc(taken))
        if self.startable_macc(kind) < 0:
            # Whole devices are more than the job is large.
            self.put_back(kind, taken)
            return None
        return taken

    def put_back(self, kind: str, shares: Iterable[Share]) -> None:
        """Undo the taking of shares."""
        for share in shares:
            self._set_open(share.node, sorted((*self.open_on(share.node), *share.devices)))
            self._start(kind, share.size_macc)

    def unlock(self, kind: str, shares: Iterable[Share]) -> Opened:
        """Open what is free of a job's own reservation; return it for :meth:`lock`."""
        opened: Opened = []
        self._failed.pop((kind, True), None)
        self._failed.pop((kind, False), None)
        for share in shares:
            node = self.pool.nodes[share.node]
            devices = [d for d in share.devices if d in node.usable and d not in node.held]
            if devices and node.type == kind:
                self._set_open(share.node, sorted((*self.open_on(share.node), *devices)))
                self._start(kind, len(devices) * node.macc_per_device)
                opened.append((share.node, devices))
        return opened

    def lock(self, kind: str, opened: Opened) -> None:
        """Close what was opened and is still open."""
        # A size that failed while it was open fails all the more without it.
        for name, devices in opened:
            still = [device for device in self.open_on(name) if device in devices]
            self.close(kind, name, still)

    def close(self, kind: str, name: str, devices: Sequence[int]) -> None:
        """Keep open devices of a node from being taken."""
        if not devices:
            return
        left = self.open_on(name).copy()
        for device in devices:
            del left[bisect_left(left, device)]
        self._set_open(name, left)
        self._start(kind, -len(devices) * self.pool.nodes[name].macc_per_device)

    def _cut(self, name: str, wanted_macc: int) -> Share:
        macc = self.pool.nodes[name].macc_per_device
        free = self.open_on(name)
        count = min(len(free), -(-wanted_macc // macc))
        self._set_open(name, free[count:])
        return Share(name, tuple(free[:count]), count * macc)

    def _set_open(self, name: str, devices: list[int]) -> None:
        node: Node = self.pool.nodes[name]
        before_macc = len(self.open_on(name)) * node.macc_per_device
        self._open[name] = devices
        places = self._places.get(node.type)
        if places is None:
            places = self._places[node.type] = self.pool.places[node.type].draft()
        places.change(node.domain, name, before_macc, len(devices) * node.macc_per_device)

    def _start(self, kind: str, change_macc: int) -> None:
        self._startable[kind] = self.startable_macc(kind) + change_macc

    def _draft_or_pool(self, kind: str) -> Places:
        found = self._places.get(kind)
        return self.pool.places.get(kind, NOWHERE) if found is None else found


def _nodes_for(places: Places, size_macc: int, *, gang: bool) -> list[str] | None:
    """Return the nodes for a job, to be filled up one after the other; None: it fits nowhere."""
    found = places.tightest_node(size_macc)
    if found is not None:
        return [found[1]]
    key = places.best_domain(size_macc)
    if key is not None:
        return places.domains[key].choose(size_macc)
    if gang:
        return None
    names: list[str] = []
    left = size_macc
    for each in places.emptiest_first():
        domain = places.domains[each]
        if domain.open_macc >= left:
            return [*names, *domain.choose(left)]
        for level in sorted(domain.levels, reverse=True):
            names += domain.levels[level]
        left -= domain.open_macc
    return None
