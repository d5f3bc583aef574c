"""Devices kept for one job that waits for more of them (design §5).

What a lease frees because it lost its quota goes to the job that has the quota now, not to whoever
is there first; with it what is free already and needed beside it. So victims that finish at
different times free devices for one claim, and are not put back in between.
"""

import json
from dataclasses import dataclass, replace
from typing import Final

from walras_placement.nodes import Node
from walras_placement.shares import Share

RESERVED: Final = "~reserved/"
"""Records of the own state: no id begins with a tilde."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Devices kept for a job, free or to be freed.

    ``freed_step`` is the step in which the last of them was seen to be free. A ``standing`` one is
    kept for the first job of a market that waits long (rounding policy ``reserve``), and need not
    be enough yet.
    """

    market: str
    shares: tuple[Share, ...]
    standing: bool = False
    freed_step: int | None = None

    def after(self, step: int, *, is_free: bool) -> "Reservation":
        """Return what it is after a step began in which all its devices were free, or not."""
        if is_free == (self.freed_step is not None):
            return self
        return replace(self, freed_step=step if is_free else None)

    def is_over(self, step: int, keep_steps: int) -> bool:
        """Whether its devices have been free for too long."""
        return (
            not self.standing
            and self.freed_step is not None
            and step - self.freed_step > keep_steps
        )

    def dump(self) -> bytes:
        """Return it as the value of a record of the state topic."""
        shares = [share.dump() for share in self.shares]
        fields = [self.market, shares, self.standing, self.freed_step]
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def parse(value: bytes) -> "Reservation":
        """Read the value of a record of the state topic."""
        market, shares, standing, freed_step = json.loads(value)
        return Reservation(
            market,
            tuple(map(Share.parse, shares)),
            standing,
            freed_step,
        )


def holders(reservation: Reservation, nodes: dict[str, Node]) -> dict[str, None] | None:
    """Return the leases that hold devices of a reservation; None: one of them cannot be had."""
    found: dict[str, None] = {}
    for share in reservation.shares:
        node = nodes.get(share.node)
        if node is None or node.type != reservation.market:
            return None
        for device in share.devices:
            if device not in node.usable:
                return None
            hold = node.held.get(device)
            if hold is not None:
                if not hold.live:
                    return None
                found[hold.lease] = None
    return found


def leases_in(reservation: Reservation, nodes: dict[str, Node]) -> dict[str, None]:
    """Return the leases that hold devices of a reservation, whatever else became of those."""
    return {
        nodes[share.node].held[device].lease: None
        for share in reservation.shares
        if share.node in nodes
        for device in share.devices
        if device in nodes[share.node].held
    }
