"""Facts of the devices: nobody held one while another did."""

from collections.abc import Iterable
from dataclasses import dataclass

from walras.demo_nodes.evidence import Evidence
from walras.demo_nodes.finding import Finding
from walras_contracts.work import LeaseState

MOST_NAMED = 5


@dataclass(frozen=True, slots=True, order=True)
class Holding:
    """A device of a node held from a time on, up to another; None: to the end of the log."""

    node: str
    device: int
    start_ms: int
    end_ms: int | None
    holder: str


def held_by_leases(evidence: Evidence) -> list[Holding]:
    """Return who held what by the agents' word: from accepted to freed."""
    found = []
    seen: set[tuple[str, str]] = set()
    for grant in evidence.grants:
        accepted = evidence.status(grant.lease, LeaseState.ACCEPTED)
        if accepted is None or (grant.lease, grant.node) in seen:
            continue
        seen.add((grant.lease, grant.node))
        freed = evidence.status(grant.lease, LeaseState.FREED)
        end_ms = None if freed is None else freed.at_ms
        found += [
            Holding(grant.node, device, accepted.at_ms, end_ms, grant.lease)
            for device in grant.devices
        ]
    return sorted(found, key=lambda h: (h.node, h.device, h.start_ms))


def held_by_processes(evidence: Evidence) -> list[Holding]:
    """Return who held what by the processes' own word: from their first line to their last."""
    found = [
        Holding(each.node, device, each.begins_ms, each.ends_ms, each.lease)
        for journal in evidence.journals.values()
        for each in journal.attempts
        for device in each.devices
    ]
    return sorted(found, key=lambda h: (h.node, h.device, h.start_ms))


def collisions(holdings: Iterable[Holding]) -> list[str]:
    """Return where a device was held twice; holdings are sorted by device and start."""
    faults: list[str] = []
    last: Holding | None = None
    for each in holdings:
        same = last is not None and (last.node, last.device) == (each.node, each.device)
        if same and last is not None and (last.end_ms is None or last.end_ms > each.start_ms):
            faults.append(
                f"device {each.device} of {each.node} was held by {each.holder} from "
                f"{each.start_ms} on, while {last.holder} held it"
            )
        if not same or last is None or last.end_ms is not None:
            last = each
    return faults


def most_at_once(holdings: Iterable[Holding]) -> int:
    """Return how many devices were held at once at the most."""
    changes = [(h.start_ms, 1) for h in holdings]
    changes += [(h.end_ms, -1) for h in holdings if h.end_ms is not None]
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def device_fact(evidence: Evidence) -> Finding:
    """Check that no device was held twice, by leases and by processes."""
    found = Finding("devices", "no device was held twice, and what the job left others got")
    leases, processes = held_by_leases(evidence), held_by_processes(evidence)
    nodes = evidence.scenario.nodes
    found.figures = {
        "devices": nodes.devices * len(nodes.names),
        "most_held_at_once": most_at_once(leases),
        "leases": len({h.holder for h in leases}),
        "held_twice": len(collisions(leases)) + len(collisions(processes)),
    }
    found.expect(bool(leases), "nothing was held at all")
    for fault in [*collisions(leases), *collisions(processes)][:MOST_NAMED]:
        found.expect(False, fault)
    strangers = {h.holder for h in processes} - {h.holder for h in leases}
    found.expect(not strangers, f"processes ran without a lease: {', '.join(sorted(strangers))}")
    _handed_over(found, evidence, leases)
    return found


def _handed_over(found: Finding, evidence: Evidence, leases: list[Holding]) -> None:
    mine = evidence.leases()
    if not mine:
        return
    first = mine[0]
    next_ones = [h for h in leases if h.node == first.node and h.device in first.devices]
    later = [h for h in next_ones if h.holder != first.lease]
    found.figures["handed_to"] = later[0].holder if later else None
    found.expect(bool(later), f"nobody got the devices of {first.lease} on {first.node}")
