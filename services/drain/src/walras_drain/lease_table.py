"""The leases as the log has them, by node, job, team and market."""

from dataclasses import dataclass, field

from walras_contracts.demand import Drainability
from walras_contracts.identifiers import job_key
from walras_contracts.runs import RunSpec
from walras_contracts.work import LeaseGranted, WorkClass


@dataclass(slots=True)
class Holding:
    """A lease with the parts that placement has not ended."""

    lease: str
    job: str
    team: str
    pool: str
    market: str
    gang: int
    work_class: WorkClass
    drainability: Drainability
    run: RunSpec | None
    granted_ms: int
    sizes_macc: dict[str, int] = field(default_factory=dict)
    """By node."""

    @property
    def job_key(self) -> str:
        """Key ``team/job``."""
        return job_key(self.team, self.job)

    @property
    def size_macc(self) -> int:
        """What its parts hold together."""
        return sum(self.sizes_macc.values())

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of its parts, in order."""
        return tuple(sorted(self.sizes_macc))

    @property
    def is_drainable(self) -> bool:
        """Whether the job declares that it can be drained."""
        return self.drainability is not Drainability.NONE


class LeaseTable:
    """Leases by id, with indices; ``new`` and ``gone`` are what this step changed."""

    def __init__(self) -> None:
        self.leases: dict[str, Holding] = {}
        self.by_node: dict[str, dict[str, None]] = {}
        self.by_job: dict[str, dict[str, None]] = {}
        self.opportunistic: dict[str, dict[str, None]] = {}
        """By market, those on what nobody bought."""
        self.by_market: dict[str, dict[str, None]] = {}
        self.team_macc: dict[str, int] = {}
        self.node_macc: dict[str, int] = {}
        self.new: dict[str, None] = {}
        self.gone: dict[str, Holding] = {}
        self.ended_parts: dict[tuple[str, str], None] = {}
        self.stale_nodes: dict[str, None] = {}
        """Nodes whose leases changed since they were counted."""

    def put(self, key: str, part: LeaseGranted | None) -> None:
        """Take the latest record of a part; None: placement ended it."""
        name, _, node = key.partition("/")
        self.stale_nodes[node] = None
        if part is None:
            self._end_part(name, node)
            return
        lease = self.leases.get(name)
        if lease is None:
            lease = self.leases[name] = Holding(
                name,
                part.job,
                part.team,
                part.pool,
                part.market,
                part.parts,
                part.work_class,
                part.drainability,
                part.run,
                part.granted_ms,
            )
            self.new[name] = None
            _enter(self.by_job, lease.job_key, name)
            _enter(self.by_market, lease.market, name)
        self._count(lease, node, -1)
        lease.sizes_macc[node] = part.size_macc
        self._count(lease, node, 1)
        lease.pool, lease.work_class = part.pool, part.work_class
        _enter(self.by_node, node, name)
        if part.work_class is WorkClass.OPPORTUNISTIC:
            _enter(self.opportunistic, lease.market, name)
        else:
            _leave(self.opportunistic, lease.market, name)

    def forget_changes(self) -> None:
        """Begin anew with what a step changes."""
        self.new.clear()
        self.gone.clear()
        self.ended_parts.clear()

    def on_node(self, node: str) -> list[Holding]:
        """Return the leases with a part on a node, by id."""
        return [self.leases[name] for name in sorted(self.by_node.get(node, ()))]

    def of_job(self, key: str) -> list[Holding]:
        """Return the leases of a job, by id."""
        return [self.leases[name] for name in sorted(self.by_job.get(key, ()))]

    def _end_part(self, name: str, node: str) -> None:
        lease = self.leases.get(name)
        if lease is None or node not in lease.sizes_macc:
            return
        self._count(lease, node, -1)
        del lease.sizes_macc[node]
        self.ended_parts[name, node] = None
        _leave(self.by_node, node, name)
        if lease.sizes_macc:
            return
        del self.leases[name]
        self.gone[name] = lease
        self.new.pop(name, None)
        _leave(self.by_job, lease.job_key, name)
        _leave(self.by_market, lease.market, name)
        _leave(self.opportunistic, lease.market, name)

    def _count(self, lease: Holding, node: str, sign: int) -> None:
        size_macc = sign * lease.sizes_macc.get(node, 0)
        for totals, key in ((self.team_macc, lease.team), (self.node_macc, node)):
            totals[key] = totals.get(key, 0) + size_macc
            if totals[key] == 0:
                del totals[key]


def _enter(index: dict[str, dict[str, None]], key: str, name: str) -> None:
    index.setdefault(key, {})[name] = None


def _leave(index: dict[str, dict[str, None]], key: str, name: str) -> None:
    held = index.get(key)
    if held is not None:
        held.pop(name, None)
        if not held:
            del index[key]
