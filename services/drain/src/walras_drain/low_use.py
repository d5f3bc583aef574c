"""Leases that hardly use their devices, from what agents report of them.

A part is low from the first report below the threshold on, and until one that is not, or that does
not mention it: what is unknown is not low. A lease is low when all its parts are.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from walras_contracts.capacity import NodeHealthReported
from walras_drain.lease_table import Holding

PREFIX: Final = "low/"


@dataclass(slots=True)
class Low:
    """Since when parts of a lease are low; ``standing``: for so long that it should leave."""

    since_ms: dict[str, int] = field(default_factory=dict)
    standing: bool = False

    def dump(self) -> bytes:
        """Return the record of the own state."""
        fields = [dict(sorted(self.since_ms.items())), self.standing]
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def parse(value: bytes) -> "Low":
        """Read the record of the own state."""
        since_ms, standing = json.loads(value)
        return Low(since_ms, standing)


class LowUse:
    """The leases that are low, by id; ``changed`` names those whose record is to be written."""

    def __init__(self) -> None:
        self.leases: dict[str, Low] = {}
        self.standing: dict[str, None] = {}
        self.changed: dict[str, None] = {}

    def load(self, lease: str, value: bytes) -> None:
        """Take back a record of the own state."""
        low = self.leases[lease] = Low.parse(value)
        if low.standing:
            self.standing[lease] = None

    def report(
        self,
        report: NodeHealthReported,
        on_node: Iterable[Holding],
        *,
        threshold_ppm: int,
        long_ms: int,
        now_ms: int,
    ) -> None:
        """Take the report of a node.

        Parameters
        ----------
        report
            The report.
        on_node
            Leases with a part there.
        threshold_ppm
            Below it a part is low.
        long_ms
            For how long it has to be.
        now_ms
            Market time of the step.
        """
        uses: Mapping[str, int] = {use.lease: use.busy_ppm for use in report.uses}
        for lease in on_node:
            busy_ppm = uses.get(lease.lease)
            if busy_ppm is None or busy_ppm >= threshold_ppm:
                self.busy(lease.lease, report.node)
                continue
            low = self.leases.setdefault(lease.lease, Low())
            if report.node not in low.since_ms:
                low.since_ms[report.node] = now_ms
                self.changed[lease.lease] = None
            whole = low.since_ms.keys() >= lease.sizes_macc.keys()
            if whole and not low.standing and now_ms - max(low.since_ms.values()) >= long_ms:
                low.standing = True
                self.standing[lease.lease] = self.changed[lease.lease] = None

    def busy(self, lease: str, node: str) -> None:
        """Take that a part is not known to be low."""
        low = self.leases.get(lease)
        if low is None or node not in low.since_ms:
            return
        del low.since_ms[node]
        low.standing = False
        self.standing.pop(lease, None)
        self.changed[lease] = None
        if not low.since_ms:
            del self.leases[lease]

    def forget(self, lease: str) -> None:
        """Forget a lease."""
        if self.leases.pop(lease, None) is not None:
            self.standing.pop(lease, None)
            self.changed[lease] = None

    def begin_anew(self) -> None:
        """Forget all: nobody knows how busy they were in a hole."""
        for lease in sorted(self.leases):
            self.forget(lease)
