"""Facts of the market: what it cost before, at and after the spike, and where the job went."""

from typing import Final

from walras.demo_nodes.evidence import Evidence
from walras.demo_nodes.finding import Finding
from walras_contracts.drains import VacateReason

REASONS: Final = frozenset({VacateReason.PRICE_ABOVE_LIMIT, VacateReason.QUOTA_LOST})
"""Where all that pays more fills the market exactly, the price is the limit of who has to leave;
it is above it as soon as more is asked for. Either sends the job away."""


def price_fact(evidence: Evidence) -> Finding:
    """Check that the price rose above the limit, that this sent the job away, and fell again."""
    found = Finding(
        "price", "the price rose above the job's limit, which sent it away, and fell again"
    )
    limit = evidence.scenario.subject.limit
    history, leases = evidence.price_history(), evidence.leases()
    vacate = next((v for v in evidence.vacates if (v.team, v.job) == evidence.subject), None)
    if not found.expect(len(leases) >= 2, f"{len(leases)} leases were granted, not 2") or (
        not found.expect(vacate is not None, "nobody asked the job to leave")
    ):
        return found
    assert vacate is not None
    first, second = leases[0], leases[1]
    before, spike = history.at(first.granted_ms), history.at(vacate.requested_ms)
    after = history.at(second.granted_ms)
    during = [p for at, p in history.points if first.granted_ms <= at <= second.granted_ms]
    peak = max(during, default=0)
    found.figures = {
        "limit_micro": limit,
        "before_micro": before,
        "spike_micro": spike,
        "peak_micro": peak,
        "after_micro": after,
        "spike_ms": vacate.requested_ms,
        "reason": vacate.reason.value,
    }
    found.expect(
        vacate.reason in REASONS,
        f"it was asked to leave for {vacate.reason.value}, not for the price",
    )
    found.expect(vacate.lease == first.lease, f"lease {vacate.lease} was asked to leave")
    found.expect(before is not None and before <= limit, f"it began at {before} above {limit}")
    found.expect(spike is not None and spike >= limit, f"it had to leave at {spike}, below {limit}")
    found.expect(peak > limit, f"the highest price, {peak}, is not above {limit}")
    found.expect(after is not None and after <= limit, f"it went on at {after} above {limit}")
    return found


def elsewhere_fact(evidence: Evidence) -> Finding:
    """Check that the job has run twice, the second time on another node."""
    found = Finding("elsewhere", "the job went on on another node")
    leases = evidence.leases()
    nodes = [lease.node for lease in leases]
    found.figures = {"nodes": nodes, "leases": [lease.lease for lease in leases]}
    if found.expect(len(nodes) == 2, f"it had {len(nodes)} leases, not 2"):
        found.expect(nodes[0] != nodes[1], f"both leases are on {nodes[0]}")
        found.expect(
            leases[0].attempt < leases[1].attempt,
            f"attempt {leases[1].attempt} follows attempt {leases[0].attempt}",
        )
    ran = [attempt.node for attempt in evidence.journal.attempts]
    found.expect(ran == nodes, f"its processes say that they ran on {ran}")
    return found
