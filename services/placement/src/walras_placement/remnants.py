"""Remnants: devices that are still held by parts of leases whose runs have ended (decision 17).

The agent of such a part is lost, or could not free its devices. The job goes on elsewhere; the
devices come back when the agent says that they are free, or an operator fences the node.
"""

import json
from dataclasses import dataclass
from typing import Final

from walras_placement.shares import Share

REMNANT: Final = "~remnant/"
"""Records of the own state: no id begins with a tilde."""


@dataclass(slots=True)
class Remnant:
    """A part of a lease that is no job's any more.

    ``asked``: a vacate was written for it since its node can be reached.
    """

    lease: str
    team: str
    job: str
    market: str
    granted_ms: int
    share: Share
    asked: bool

    @property
    def key(self) -> str:
        """Key of its record in the own state."""
        return f"{REMNANT}{self.lease}/{self.share.node}"

    def dump(self) -> bytes:
        """Return it as the value of a record of the state topic."""
        named = [self.lease, self.team, self.job, self.market]
        fields = [*named, self.granted_ms, self.share.dump(), self.asked]
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def parse(value: bytes) -> "Remnant":
        """Read the value of a record of the state topic."""
        lease, team, job, market, granted_ms, share, asked = json.loads(value)
        return Remnant(lease, team, job, market, granted_ms, Share.parse(share), asked)


class Remnants:
    """All remnants, by lease and by node."""

    def __init__(self) -> None:
        self._of_lease: dict[str, dict[str, Remnant]] = {}
        self._of_node: dict[str, dict[str, Remnant]] = {}

    def add(self, remnant: Remnant) -> None:
        """Take a new remnant."""
        self._of_lease.setdefault(remnant.lease, {})[remnant.share.node] = remnant
        self._of_node.setdefault(remnant.share.node, {})[remnant.lease] = remnant

    def remove(self, remnant: Remnant) -> None:
        """Forget a remnant: its devices are free."""
        for table, first, second in (
            (self._of_lease, remnant.lease, remnant.share.node),
            (self._of_node, remnant.share.node, remnant.lease),
        ):
            del table[first][second]
            if not table[first]:
                del table[first]

    def find(self, lease: str, node: str) -> Remnant | None:
        """Return the remnant of a lease on a node."""
        return self._of_lease.get(lease, {}).get(node)

    def on(self, node: str) -> list[Remnant]:
        """Return the remnants on a node, by lease."""
        found = self._of_node.get(node, {})
        return [found[lease] for lease in sorted(found)]

    def at(self, key: str) -> Remnant | None:
        """Return the remnant with a key of the own state."""
        lease, _, node = key.removeprefix(REMNANT).partition("/")
        return self.find(lease, node)
