"""Orders of operators and teams that a job's lease be drained, and their ends."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from walras_contracts.drains import DrainOrdered
from walras_drain.lease_table import Holding
from walras_drain.session import Session

PREFIX: Final = "order/"


@dataclass(frozen=True, slots=True)
class Order:
    """The last order about a lease; not ``active``: that its drain be cancelled."""

    order: str
    ordered_ms: int
    taken_ms: int
    active: bool

    def stands(self, session: Session | None) -> bool:
        """Whether it still asks for a drain; a session that ended since has served it."""
        served = session is not None and (session.ended_ms or 0) > self.taken_ms
        return self.active and not served

    def dump(self) -> bytes:
        """Return the record of the own state."""
        fields = [self.order, self.ordered_ms, self.taken_ms, self.active]
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def parse(value: bytes) -> "Order":
        """Read the record of the own state."""
        return Order(*json.loads(value))


def ordered_lease(order: DrainOrdered, leases: Iterable[Holding]) -> Holding | None:
    """Return the lease that an order speaks of; None: of one that is not there (any more).

    An order speaks of what runs when it is given. It may be told again later: then it does not
    mean the lease that the job was given since.
    """
    spoken_of = [lease for lease in leases if lease.granted_ms <= order.ordered_ms]
    return max(spoken_of, key=_granted, default=None)


def counts(order: DrainOrdered, last: Order | None) -> bool:
    """Whether an order says something new: an older one, or the same again, does not."""
    if last is None:
        return True
    return order.order != last.order and order.ordered_ms >= last.ordered_ms


def _granted(lease: Holding) -> tuple[int, str]:
    return lease.granted_ms, lease.lease
