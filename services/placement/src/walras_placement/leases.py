"""A lease: devices of one or several nodes for one run of one job, and how far it has come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from walras_contracts.demand import JobQueued
from walras_contracts.drains import VacateReason
from walras_contracts.work import LeaseGranted, LeaseState, WorkClass
from walras_placement.shares import Share


@dataclass(slots=True)
class Lease:
    """Devices that a job holds; ``size_macc`` counts them whole."""

    lease: str
    market: str
    work_class: WorkClass
    pool: str
    size_macc: int
    limit_micro: int | None
    granted_ms: int
    remaining_run_ms: int | None
    parts: tuple[Share, ...]
    open_parts: dict[str, str]
    """Parts that are neither verified free nor given up, with what their agents said last: that
    they accepted, that they run, or nothing."""
    may_start: bool = True
    """Whether all parts were accepted."""
    unfinished_ms: int | None = None
    """Run time that a part which is gone reported as left."""
    interrupted: bool = False
    """A part that is gone left work undone."""
    failed: bool = False
    """A part did not start, or ended with an error soon after."""
    broken: bool = False
    """A part is gone in the middle of its work: the others have to leave."""
    requested: VacateReason | None = None
    """What the drain service asks it to leave for."""
    evicted: bool = False
    """It was asked to leave for the sake of others, or the like: its job has to wait."""
    withdrawn: bool = False
    """It was asked to leave and may stay after all; its agents have not all said that it does."""
    too_late: bool = False
    """Its drain cannot be cancelled any more."""
    drain_said: dict[str, str] = field(default_factory=dict)
    """What the agents of its open parts said about its drain last."""

    def open_shares(self) -> list[Share]:
        """Return the parts that are open."""
        return [share for share in self.parts if share.node in self.open_parts]

    def share_on(self, node: str) -> Share:
        """Return the part on a node."""
        return next(share for share in self.parts if share.node == node)

    def says_all(self, *states: LeaseState) -> bool:
        """Whether the agents of all open parts said one of some states last."""
        return all(said in states for said in self.open_parts.values())

    def grants(self, entry: JobQueued, attempt: int) -> list[LeaseGranted]:
        """Return the records of all parts as they stand."""
        return [
            LeaseGranted(
                lease=self.lease,
                node=share.node,
                part=index,
                parts=len(self.parts),
                attempt=attempt,
                job=entry.job,
                team=entry.team,
                pool=self.pool,
                market=self.market,
                work_class=self.work_class,
                devices=share.devices,
                size_macc=share.size_macc,
                limit_micro=self.limit_micro,
                granted_ms=self.granted_ms,
                remaining_run_ms=self.remaining_run_ms,
                drainability=entry.drainability,
                run=entry.run,
                may_start=self.may_start,
            )
            for index, share in enumerate(self.parts)
        ]

    def dump(self) -> dict[str, object]:
        """Return what a record of the state topic holds of it; flags only where they are set."""
        document: dict[str, object] = {
            "lease": self.lease,
            "market": self.market,
            "class": self.work_class.value,
            "pool": self.pool,
            "macc": self.size_macc,
            "limit": self.limit_micro,
            "granted": self.granted_ms,
            "remaining": self.remaining_run_ms,
            "parts": [share.dump() for share in self.parts],
            "open": {node: self.open_parts[node] for node in sorted(self.open_parts)},
        }
        if self.unfinished_ms is not None:
            document["unfinished"] = self.unfinished_ms
        if self.requested is not None:
            document["requested"] = self.requested.value
        if self.drain_said:
            document["said"] = {node: self.drain_said[node] for node in sorted(self.drain_said)}
        flags = [name for name in FLAGS if getattr(self, name)]
        if flags:
            document["flags"] = flags
        return document

    @staticmethod
    def parse(document: Mapping[str, Any]) -> "Lease":
        """Read what :meth:`dump` returned."""
        requested = document.get("requested")
        lease = Lease(
            document["lease"],
            document["market"],
            WorkClass(document["class"]),
            document["pool"],
            document["macc"],
            document["limit"],
            document["granted"],
            document["remaining"],
            tuple(map(Share.parse, document["parts"])),
            dict(document["open"]),
            may_start=False,
            unfinished_ms=document.get("unfinished"),
            requested=None if requested is None else VacateReason(requested),
            drain_said=dict(document.get("said", {})),
        )
        for name in document.get("flags", ()):
            setattr(lease, name, True)
        return lease


FLAGS: Final = (
    *("may_start", "interrupted", "failed", "broken", "evicted", "withdrawn", "too_late"),
)
"""Fields that a record of the state topic names where they are true."""
