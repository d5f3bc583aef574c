"""How a lease that was asked to leave is drained: what is said of it, and how long it is billed.

The simulated fleet does what it is told: a drain is warned of in the step that takes the request,
waits, and ends with its devices freed. Real agents add the steps in between, and failures.
"""

from dataclasses import dataclass

from walras_contracts.identifiers import digest_of
from walras_contracts.work import DrainState, DrainStatusChanged
from walras_node_agent.state import Lease


@dataclass(frozen=True, slots=True)
class DrainRules:
    """How long a lease that was asked to leave runs on, and is billed; in ms of market time.

    ``vacate_grace_ms`` counts from the request, ``billing_grace_ms`` from the warning.
    """

    vacate_grace_ms: int
    billing_grace_ms: int


def session_of(lease: Lease) -> str:
    """Return the id of the drain of a lease: it is drained once at the most."""
    return digest_of("drain", lease.lease, str(lease.attempt))


def drain_statuses(lease: Lease, state: DrainState, at_ms: int) -> list[DrainStatusChanged]:
    """Return that the drain of a lease that was warned came to a state, for each of its nodes."""
    assert lease.warned_ms is not None
    return [
        DrainStatusChanged(
            session=session_of(lease),
            lease=lease.lease,
            node=node,
            team=lease.team,
            pool=lease.pool,
            job=lease.job,
            state=state,
            outcome="",
            warned_ms=lease.warned_ms,
            at_ms=at_ms,
        )
        for node in sorted(lease.sizes_macc)
    ]
