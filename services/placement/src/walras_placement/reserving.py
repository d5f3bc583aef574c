"""What is reserved for jobs that have quota and find too few open devices, while a plan is made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from walras_placement.draft import Draft
from walras_placement.leases import Lease
from walras_placement.shares import Share, by_node, occupied_macc
from walras_placement.topology import DomainKey

Soon = dict[str, dict[str, list[int]]]
"""Devices that leases which leave will free: by type, then by node, ascending."""


@dataclass(slots=True)
class _Room:
    """What a node would have for a job: open, and soon free."""

    node: str
    macc_per_device: int
    open: Sequence[int]
    soon: Sequence[int]

    @property
    def total_macc(self) -> int:
        return (len(self.open) + len(self.soon)) * self.macc_per_device

    @property
    def open_macc(self) -> int:
        return len(self.open) * self.macc_per_device

    def missing_macc(self, size_macc: int) -> int:
        return max(0, size_macc - self.open_macc)


class Reserver:
    """Finds devices that a job is to wait for.

    Parameters
    ----------
    draft
        What is open.
    leaving
        Leases that are to leave, in whatever order.
    returning
        Leases that may stay after all, if nobody needs their devices.
    released
        Jobs whose reservations have ended in this plan.
    """

    def __init__(
        self,
        draft: Draft,
        leaving: Iterable[Lease],
        returning: Mapping[str, Lease],
        released: Mapping[str, object],
    ) -> None:
        self._draft = draft
        self._leaving = leaving
        self._returning = returning
        self._released = released
        self._soon: Soon | None = None
        self._back: Soon = {}
        self._failed: dict[tuple[str, bool, bool], int] = {}
        """From which size on nothing was found; there is no more since."""

    def whole(
        self, kind: str, size_macc: int, *, gang: bool, with_returning: bool = False
    ) -> tuple[Share, ...] | None:
        """Return devices for a whole job, open or soon free; None where there are not enough.

        Where the fewest are missing; then where the least room is enough; then by name. One node
        goes before a domain of several.
        """
        tried = (kind, gang, with_returning)
        failed_macc = self._failed.get(tried)
        if failed_macc is not None and size_macc >= failed_macc:
            return None
        shares = self._whole(kind, size_macc, gang, with_returning)
        if shares is None:
            self._failed[tried] = size_macc
        return shares

    def _whole(
        self, kind: str, size_macc: int, gang: bool, with_returning: bool
    ) -> tuple[Share, ...] | None:
        by_node = self._rooms(kind, with_returning)
        if not by_node:
            return None
        enough = [room for room in by_node.values() if room.total_macc >= size_macc]
        if enough:
            best = min(enough, key=lambda r: (r.missing_macc(size_macc), r.total_macc, r.node))
            return _filled([best], size_macc)
        domains: dict[DomainKey, int] = {}
        for name, room in by_node.items():
            key = self._draft.pool.nodes[name].domain
            domains[key] = domains.get(key, 0) + room.total_macc - room.open_macc
        open_macc = {key: self._draft.domain_open_macc(kind, key) for key in domains}
        fitting = [key for key, soon in domains.items() if open_macc[key] + soon >= size_macc]
        if fitting:
            nearest = min(
                fitting,
                key=lambda key: (
                    max(0, size_macc - open_macc[key]),
                    open_macc[key] + domains[key],
                    key,
                ),
            )
            return _filled(self._emptiest_first(kind, [nearest], by_node), size_macc)
        if gang or self._draft.open_macc(kind) + sum(domains.values()) < size_macc:
            return None
        everywhere = sorted(self._draft.pool.places[kind].domains)
        return _filled(self._emptiest_first(kind, everywhere, by_node), size_macc)

    def standing(self, kind: str, size_macc: int, before: Sequence[Share]) -> tuple[Share, ...]:
        """Return what there is for a job in one place that could hold all of it.

        Parameters
        ----------
        kind, size_macc
            What it needs.
        before
            What it has reserved: it stays in that place.

        Returns
        -------
        tuple
            Devices to be reserved beside those, not necessarily enough.
        """
        left_macc = size_macc - occupied_macc(before)
        if left_macc <= 0:
            return ()
        nodes = self._draft.pool.nodes
        rooms = self._rooms(kind, with_returning=False)
        of_kind = sorted(name for name, node in nodes.items() if node.type == kind and node.usable)
        found = {name: rooms.get(name) or self._open_room(name) for name in of_kind}

        def usable_macc(name: str) -> int:
            return len(nodes[name].usable) * nodes[name].macc_per_device

        single = [name for name in of_kind if usable_macc(name) >= size_macc]
        if single:
            home = [share.node for share in before if share.node in single]
            ranked = home or sorted(single, key=lambda name: (-found[name].total_macc, name))
            return _filled([found[ranked[0]]], left_macc)
        domains = self._draft.pool.places[kind].domains
        totals = {key: 0 for key in sorted(domains) if domains[key].usable_macc >= size_macc}
        for name, room in found.items():
            if nodes[name].domain in totals:
                totals[nodes[name].domain] += room.total_macc
        homes = [nodes[share.node].domain for share in before if share.node in nodes]
        known = [key for key in homes if key in totals]
        if not totals:
            return ()
        best = known[0] if known else min(totals, key=lambda key: (-totals[key], key))
        return _filled(self._emptiest_first(kind, [best], rooms), left_macc)

    def take(self, kind: str, shares: Iterable[Share]) -> None:
        """Keep what was found from others for the rest of the plan."""
        for share in shares:
            open_now = self._draft.open_on(share.node)
            self._draft.close(kind, share.node, [d for d in share.devices if d in open_now])
            for soon in (self._soon or {}, self._back):
                by_node = soon.get(kind, {})
                if share.node in by_node:
                    left = [d for d in by_node[share.node] if d not in share.devices]
                    by_node[share.node] = left

    def needed_of(self, shares: Iterable[Share]) -> dict[str, None]:
        """Return the returning leases that hold any of some devices."""
        nodes = self._draft.pool.nodes
        found: dict[str, None] = {}
        for share in shares:
            held = nodes[share.node].held
            for device in share.devices:
                hold = held.get(device)
                if hold is not None and hold.lease in self._returning:
                    found[hold.lease] = None
        return found

    def leaves_after_all(self, lease: Lease) -> None:
        """Take that a returning lease leaves for a job's sake: the rest of it is for others."""
        if self._soon is None:
            return
        back = self._back.get(lease.market, {})
        soon = self._soon.setdefault(lease.market, {})
        for share in lease.open_shares():
            devices = [d for d in back.get(share.node, ()) if d in share.devices]
            if devices:
                back[share.node] = [d for d in back[share.node] if d not in devices]
                soon[share.node] = sorted((*soon.get(share.node, ()), *devices))
        for gang in (True, False):
            self._failed.pop((lease.market, gang, False), None)

    def _rooms(self, kind: str, with_returning: bool) -> dict[str, _Room]:
        """Return the nodes on which anything becomes free, with what they have."""
        if self._soon is None:
            self._soon = self._by_node(self._leaving)
            self._back = self._by_node(self._returning.values())
        rooms: dict[str, _Room] = {}
        for soon in (self._soon, self._back) if with_returning else (self._soon,):
            for name, devices in soon.get(kind, {}).items():
                if devices:
                    room = rooms.get(name)
                    if room is None:
                        room = rooms[name] = self._open_room(name)
                    room.soon = [*room.soon, *devices]
        return rooms

    def _open_room(self, name: str) -> _Room:
        node = self._draft.pool.nodes[name]
        return _Room(name, node.macc_per_device, self._draft.open_on(name), ())

    def _emptiest_first(
        self, kind: str, keys: Iterable[DomainKey], rooms: Mapping[str, _Room]
    ) -> list[_Room]:
        found: dict[str, _Room] = {}
        for key in keys:
            for name in self._draft.nodes_of(kind, key):
                found[name] = rooms.get(name) or self._open_room(name)
            for name, room in rooms.items():
                if self._draft.pool.nodes[name].domain == key:
                    found[name] = room
        return sorted(found.values(), key=lambda r: (-r.total_macc, -r.open_macc, r.node))

    def _by_node(self, leases: Iterable[Lease]) -> Soon:
        """Return the usable devices that leases hold and nobody has reserved."""
        nodes = self._draft.pool.nodes
        found: Soon = {}
        for lease in leases:
            for share in lease.open_shares():
                node = nodes[share.node]
                if node.type != lease.market:
                    continue
                devices = [
                    device
                    for device in share.devices
                    if device in node.usable
                    and (device not in node.reserved or node.reserved[device] in self._released)
                ]
                if devices:
                    by_node = found.setdefault(lease.market, {})
                    by_node[share.node] = sorted((*by_node.get(share.node, ()), *devices))
        return found


def _filled(rooms: Iterable[_Room], size_macc: int) -> tuple[Share, ...]:
    """Return devices of nodes until they are enough, open ones of each node first."""
    shares: list[Share] = []
    left = size_macc
    for room in rooms:
        if left <= 0:
            break
        devices = [*room.open, *room.soon][: -(-left // room.macc_per_device)]
        if devices:
            macc = len(devices) * room.macc_per_device
            shares.append(Share(room.node, tuple(sorted(devices)), macc))
            left -= macc
    return by_node(shares)


def together(one: Iterable[Share], other: Iterable[Share]) -> tuple[Share, ...]:
    """Return the devices of two reservations as one share a node."""
    found: dict[str, Share] = {}
    for share in (*one, *other):
        before = found.get(share.node)
        found[share.node] = (
            share
            if before is None
            else Share(
                share.node,
                tuple(sorted((*before.devices, *share.devices))),
                before.size_macc + share.size_macc,
            )
        )
    return tuple(found[node] for node in sorted(found))
