"""Judges of leases: none outlives its holder, none is released early; devices are held once."""

from collections.abc import Iterator

from tests.chaos_drains.history import History
from tests.chaos_drains.leases import Ledger, ledgers
from tests.chaos_drains.terms import DEVICE_MACC
from walras_contracts.capacity import NodePublished, NodeState
from walras_contracts.placing import PlacementMeasured


def outlived(history: History) -> list[str]:
    """Return leases that stand although their agents are gone for the timeout and a cycle.

    Of a gang of which another part is left, that part must have been asked to leave.
    """
    faults: dict[str, str] = {}
    most_ms = history.times.lease_timeout_ms + history.times.interval_ms
    for ledger, silence in ledgers(history):
        for job, lease_id in ledger.of_job.items():
            lease = ledger.leases[lease_id]
            left = [node for node in lease.parts if (lease_id, node) not in ledger.freed]
            gone = [node for node in left if silence.silent_ms.get(node, 0) >= most_ms]
            if gone and (len(gone) == len(left) or not lease.vacate_asked):
                said = f"silent for {silence.silent_ms[gone[0]]} ms, its lease stands"
                faults.setdefault(
                    lease_id, f"step {ledger.step}: {lease_id} of {job}: {gone[0]} is {said}"
                )
    return list(faults.values())


def released_early(history: History) -> list[str]:
    """Return leases that were given up while an agent answered for them."""
    return [
        f"step {ledger.step}: {lease.lease} of {lease.job} was released while {node} held it"
        for ledger, _ in ledgers(history)
        for lease in ledger.ended
        for node in lease.parts
        if (lease.lease, node) not in ledger.freed | ledger.stuck | ledger.lost
    ]


def running_without_lease(history: History) -> list[str]:
    """Return processes that lived on when the run of their lease was over."""
    ends = {
        lease.lease: lease.until.stamp_ms
        for ledger, _ in ledgers(history)
        for lease in ledger.ended
        if lease.until is not None
    }
    return [
        f"{life.lease} on {life.node}: process {life.pid} lived for at least "
        f"{life.last_ms - ends[life.lease]} ms after the run of its lease was over"
        for life in history.lives
        if life.lease in ends and life.last_ms > ends[life.lease]
    ]


def held_twice(history: History) -> list[str]:
    """Return devices that were granted before the lease that had them was freed."""
    faults, holders = [], dict[tuple[str, int], str]()
    for ledger, _ in ledgers(history):
        _drop_freed(ledger, holders)
        for grant in ledger.granted:
            for device in grant.devices:
                holder = holders.setdefault((grant.node, device), grant.lease)
                if holder != grant.lease:
                    faults.append(
                        f"step {ledger.step}: device {device} of {grant.node} was granted to "
                        f"{grant.lease} before {holder} was freed"
                    )
    return faults


def over_supply(history: History) -> list[str]:
    """Return where the invariant of the step protocol (§6) does not hold.

    Held and reserved fit what is present and not verified gone; where a lease was started, what is
    held fits what may be used. Open devices may be reserved where nothing can start: work that
    leaves withdrawn devices counts as held.
    """
    faults, holders = [], dict[tuple[str, int], str]()
    published = history.by_step(NodePublished.TOPIC)
    figures = history.by_step(PlacementMeasured.TOPIC)
    nodes: dict[str, NodePublished] = {}
    for ledger, _ in ledgers(history):
        _drop_freed(ledger, holders)
        for grant in ledger.granted:
            holders.update({(grant.node, device): grant.lease for device in grant.devices})
        for entry in published.get(ledger.step, ()):
            if isinstance(entry.event, NodePublished):
                nodes[entry.key] = entry.event
        present = {n.node: n.devices for n in nodes.values() if n.state is not NodeState.GONE}
        held = [(node, device) for node, device in holders if device < present.get(node, 0)]
        beyond = sorted(holders.keys() - set(held))
        faults += [f"step {ledger.step}: device {d} of {n} is held, not there" for n, d in beyond]
        for entry in figures.get(ledger.step, ()):
            if isinstance(entry.event, PlacementMeasured):
                where = f"step {ledger.step}"
                found = _sums(entry.event, len(holders), nodes, started=bool(ledger.granted))
                faults += [f"{where}: {each}" for each in found]
    return faults


def _sums(
    told: PlacementMeasured, held: int, nodes: dict[str, NodePublished], *, started: bool
) -> Iterator[str]:
    present_macc = sum(
        n.devices * n.macc_per_device for n in nodes.values() if n.state is not NodeState.GONE
    )
    usable_macc = sum(
        (n.devices - len(n.withheld_devices)) * n.macc_per_device
        for n in nodes.values()
        if n.state is NodeState.ACTIVE and not n.lost
    )
    held_macc = held * DEVICE_MACC
    if told.held_macc + told.remnant_macc != held_macc:
        yield (
            f"placement counts {told.held_macc} macc held and {told.remnant_macc} left over, "
            f"the log {held_macc}"
        )
    if held_macc + told.reserved_macc > present_macc:
        yield (
            f"{held_macc} macc held and {told.reserved_macc} reserved, {present_macc} are present"
        )
    if started and told.held_macc > usable_macc:
        yield f"a lease was started: {told.held_macc} macc held, {usable_macc} may be used"


def _drop_freed(ledger: Ledger, holders: dict[tuple[str, int], str]) -> None:
    for place, lease in list(holders.items()):
        if (lease, place[0]) in ledger.freed:
            del holders[place]


def lost_parts(history: History) -> int:
    """Return how many parts of leases were lost with their nodes."""
    lost = 0
    for ledger, _ in ledgers(history):
        lost = len(ledger.lost)
    return lost


def longest_silence_ms(history: History) -> int:
    """Return for how long a node was silent at most while a lease stood there.

    The rest of a gang that was asked to leave does not count.
    """
    longest_ms = 0
    for ledger, silence in ledgers(history):
        for lease_id in ledger.of_job.values():
            lease = ledger.leases[lease_id]
            closed = ledger.freed | ledger.lost if lease.vacate_asked else ledger.freed
            for node in lease.parts:
                if (lease_id, node) not in closed:
                    longest_ms = max(longest_ms, silence.silent_ms.get(node, 0))
    return longest_ms
