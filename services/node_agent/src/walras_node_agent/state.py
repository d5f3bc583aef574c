"""What the fleet remembers: the leases on its nodes and how far it has simulated."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from walras_contracts.drains import DrainCommanded
from walras_contracts.work import LeaseGranted, UsageMetered, WorkClass
from walras_node_agent.metering import UsageTemplate
from walras_node_agent.part_dump import dump_life, parse_life
from walras_node_agent.part_life import Life, fresh

CLOCK_KEY = "~clock"
_FIELDS: Final = (
    *("job", "team", "pool", "market", "attempt", "work_class", "limit_micro", "tariff_ppm"),
    *("parts", "remaining_run_ms", "life", "sizes_macc", "start_ms", "end_ms", "seq_offset"),
    *("unbilled_ms", "heard", "told_ms", "free_ms", "records_ended"),
)
"""What the state topic keeps of a lease, in this order."""


@dataclass(slots=True)
class Lease:
    """A lease with the parts that have arrived.

    Its parts live one life: the fleet holds all of them. ``start_ms`` is None until all ``parts``
    are there. ``end_ms`` is None where the lease runs until it is drained, and once nothing of it
    runs any more. ``seq_offset`` is constant while the lease runs through whole windows: its next
    sequence number is the clock's ``pieces`` plus it, so a running lease changes no state.
    """

    lease: str
    job: str
    team: str
    pool: str
    market: str
    attempt: int
    work_class: WorkClass
    limit_micro: int | None
    tariff_ppm: int
    parts: int
    remaining_run_ms: int | None
    life: Life
    sizes_macc: dict[str, int] = field(default_factory=dict)
    """Size by node of the parts that have arrived."""
    start_ms: int | None = None
    end_ms: int | None = None
    seq_offset: int = 0
    unbilled_ms: int = 0
    """For how much of its time nobody pays."""
    heard: str = ""
    """The last command: it comes once for every node."""
    told_ms: int = 0
    """When something was last said of its drain."""
    free_ms: int | None = None
    """When devices that are stuck will be free."""
    records_ended: dict[str, None] = field(default_factory=dict)
    """Nodes whose record of the lease is gone although it is still here."""
    templates: dict[tuple[str, bool], UsageTemplate] = field(default_factory=dict)
    """Usage by node, billed or not, as it is written now; made when needed, dropped when class,
    limit or pool change."""
    settled: bool = False
    """Whether it runs and nobody wants anything of it: nothing of it needs to be looked at."""
    commands: list[DrainCommanded | None] = field(default_factory=list)
    """What this step said of its drain, None its end; empty between steps."""
    restated: LeaseGranted | None = None
    """A record of this step: its class, limit and pool count from the step on."""

    @staticmethod
    def of(part: LeaseGranted) -> "Lease":
        """Return the lease that a part belongs to, without parts."""
        return Lease(
            part.lease,
            part.job,
            part.team,
            part.pool,
            part.market,
            part.attempt,
            part.work_class,
            part.limit_micro,
            part.tariff_ppm,
            part.parts,
            part.remaining_run_ms,
            fresh(part.parts > 1, part.drainability),
        )

    def take_terms(self) -> None:
        """Take class, limit and pool of the record that this step brought, if it brought one."""
        part, self.restated = self.restated, None
        if part is not None:
            self.work_class, self.limit_micro = part.work_class, part.limit_micro
            self.pool = part.pool
            self.templates.clear()

    @property
    def leaving(self) -> bool:
        """Whether it was told to leave, so that its use is overhang."""
        return self.life.draining or self.life.ended

    def dump(self) -> bytes:
        """Return the lease as one record of the state topic."""
        values = {name: getattr(self, name) for name in _FIELDS}
        values["work_class"] = self.work_class.value
        values["life"] = dump_life(self.life)
        values["sizes_macc"] = dict(sorted(self.sizes_macc.items()))
        values["records_ended"] = sorted(self.records_ended)
        fields = list(values.values())
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def parse(lease: str, fields: list[Any]) -> "Lease":
        """Read the fields of a record of the state topic."""
        values = dict(zip(_FIELDS, fields, strict=True))
        values["work_class"] = WorkClass(values["work_class"])
        values["life"] = parse_life(values["life"])
        values["records_ended"] = dict.fromkeys(values["records_ended"])
        return Lease(lease, **values)


@dataclass(frozen=True, slots=True)
class Owed:
    """What a freed lease still has to pay for.

    Parameters
    ----------
    usage
        One record over all of the time, of one of its nodes.
    sizes_macc
        Size by node: nothing else differs.
    """

    usage: UsageMetered
    sizes_macc: dict[str, int]

    def dump(self) -> list[Any]:
        """Return it as JSON."""
        return [self.usage.model_dump(mode="json"), dict(sorted(self.sizes_macc.items()))]

    @staticmethod
    def parse(values: list[Any]) -> "Owed":
        """Return what was dumped."""
        usage, sizes_macc = values
        return Owed(UsageMetered.model_validate(usage), sizes_macc)


@dataclass(slots=True)
class Clock:
    """How far the fleet has simulated.

    ``until_ms`` is the end of the last window, None before the first. ``pieces`` counts the
    intervals into which all windows so far were cut.
    """

    until_ms: int | None = None
    pieces: int = 0

    def dump(self) -> bytes:
        """Return the clock as one record of the state topic."""
        return json.dumps([self.until_ms, self.pieces]).encode()

    @staticmethod
    def parse(value: bytes) -> "Clock":
        """Read a record of the state topic."""
        until_ms, pieces = json.loads(value)
        return Clock(until_ms, pieces)


@dataclass(slots=True)
class FleetState:
    """All leases by id, and the clock."""

    leases: dict[str, Lease] = field(default_factory=dict)
    ended: dict[str, dict[str, None]] = field(default_factory=dict)
    """Nodes of freed leases until placement ends their records: a record that was written again
    before placement knew must not start them a second time."""
    owed: dict[str, Owed] = field(default_factory=dict)
    """What freed leases still have to pay for; written as it passes."""
    clock: Clock = field(default_factory=Clock)
    changed: dict[str, None] = field(default_factory=dict)
    """Leases whose record is to be written in this step."""

    def load(self, key: str, value: bytes) -> None:
        """Take back one record of the state topic."""
        if key == CLOCK_KEY:
            self.clock = Clock.parse(value)
            return
        fields = json.loads(value)
        if isinstance(fields, dict):
            if fields["ended"]:
                self.ended[key] = dict.fromkeys(fields["ended"])
            if fields.get("owed"):
                self.owed[key] = Owed.parse(fields["owed"])
        else:
            self.leases[key] = Lease.parse(key, fields)

    def dump(self, lease_id: str) -> bytes | None:
        """Return a lease's record of the state topic; None when it is forgotten."""
        lease = self.leases.get(lease_id)
        if lease is not None:
            return lease.dump()
        ended, owed = self.ended.get(lease_id, {}), self.owed.get(lease_id)
        if not ended and owed is None:
            return None
        kept = {"ended": sorted(ended), "owed": [] if owed is None else owed.dump()}
        return json.dumps(kept).encode()
