"""Reads nodes as they stand from the log."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.folding import latest, latest_of
from walras.jobs_log.items import Item, Log
from walras_contracts.capacity import (
    NodeHealthReported,
    NodeObserved,
    NodePublished,
    NodeState,
)
from walras_contracts.drains import DrainSessionChanged, NodeDrainChanged
from walras_contracts.work import LeaseGranted
from walras_runtime.records import Barrier

HOUR_MS: Final = 3_600_000
TOPICS: Final = ("nodes", "inventory", "node.health", "leases", "drain.sessions")


@dataclass(frozen=True, slots=True)
class Devices:
    """How many devices of a node are free, held, and withheld; each counts once.

    ``held``: by a lease, whatever state the device is in. ``withheld``: of the others those that
    must not be given to anybody.
    """

    free: int
    held: int
    withheld: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last report of an agent; ``heard_ms``: market time of the barrier behind it.

    None: no barrier lies behind it yet.
    """

    report: NodeHealthReported
    heard_ms: int | None


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node; ``observed``: what was stated last, which may count later only."""

    node: NodePublished
    observed: NodeObserved | None
    leases: tuple[LeaseGranted, ...]
    heartbeat: Heartbeat | None
    drain: NodeDrainChanged | None
    sessions: tuple[DrainSessionChanged, ...]
    """Of leases that it holds parts of, those that are not forgotten yet."""

    @property
    def devices(self) -> Devices:
        """Return how many of its devices are free, held, withheld."""
        node = self.node
        everything = frozenset(range(node.devices))
        held = everything & {index for part in self.leases for index in part.devices}
        is_used = node.state is NodeState.ACTIVE and not node.lost
        withheld = everything & set(node.withheld_devices) if is_used else everything
        return Devices(
            len(everything - held - withheld), len(held), len((everything & withheld) - held)
        )

    @property
    def coming(self) -> NodeObserved | None:
        """Return what was stated and does not count yet, as far as it is another state."""
        observed = self.observed
        return observed if observed is not None and observed.state is not self.node.state else None


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes by type and id, as of a barrier of ``node.health``; None: there is none yet."""

    nodes: list[NodeView]
    barrier: Barrier | None

    @property
    def now_ms(self) -> int | None:
        """Market time of it."""
        return None if self.barrier is None else self.barrier.market_time_ms

    def silent_ms(self, view: NodeView) -> int | None:
        """Return how long the agent of a node has been silent; None: it never spoke."""
        if view.heartbeat is None or self.now_ms is None:
            return None
        heard_ms = view.heartbeat.heard_ms
        return 0 if heard_ms is None else max(0, self.now_ms - heard_ms)


def read_nodes(log: Log, node: str | None = None, *, gone: bool = False) -> Nodes:
    """Read all nodes, or one.

    Parameters
    ----------
    log
        Where from.
    node
        Only this one.
    gone
        Whether nodes that are gone are listed; one that is asked for is in any case.

    Raises
    ------
    JobsLogError
        There is no such node, or the log cannot be read.
    """
    published = latest(log, NodePublished)
    shown = {
        name: each
        for name, each in published.items()
        if (node is None and (gone or each.state is not NodeState.GONE)) or name == node
    }
    observed = observed_lately(log)
    if node is not None and node not in shown:
        _refuse_unknown(node, observed)
    heartbeats, barrier = _heartbeats(log.read(NodeHealthReported.TOPIC, NodeHealthReported))
    leases: dict[str, list[LeaseGranted]] = {}
    for part in latest(log, LeaseGranted).values():
        leases.setdefault(part.node, []).append(part)
    items = [*log.read(DrainSessionChanged.TOPIC, DrainSessionChanged, NodeDrainChanged)]
    drains = {each.node: each for each in latest_of(items, NodeDrainChanged).values()}
    sessions = latest_of(items, DrainSessionChanged).values()
    views = [
        NodeView(
            each,
            observed.get(name),
            tuple(sorted(leases.get(name, ()), key=lambda part: (part.devices, part.lease))),
            heartbeats.get(name),
            drains.get(name),
            _sessions_of(name, leases.get(name, ()), sessions),
        )
        for name, each in shown.items()
    ]
    return Nodes(sorted(views, key=lambda view: (view.node.type, view.node.node)), barrier)


def observed_lately(log: Log) -> dict[str, NodeObserved]:
    """Return the last statement about each node of which there was one in the last hour.

    What was stated before that counts already: an ordinary change waits for the full hour.

    Raises
    ------
    JobsLogError
        The log cannot be read.
    """
    found: dict[str, NodeObserved] = {}
    now_ms: int | None = None
    # One partition holds all of it; which node it is asked for does not matter.
    for stretch in log.backwards(NodeObserved.TOPIC, NodeObserved, partition_key="-"):
        for item in reversed(stretch):
            if item.barrier is not None:
                time_ms = item.barrier.market_time_ms
                now_ms = time_ms if now_ms is None else now_ms
                if time_ms < now_ms - HOUR_MS:
                    return found
            elif isinstance(item.event, NodeObserved):
                found.setdefault(item.event.node, item.event)
    return found


def _sessions_of(
    node: str, leases: Iterable[LeaseGranted], sessions: Iterable[DrainSessionChanged]
) -> tuple[DrainSessionChanged, ...]:
    held = {part.lease for part in leases}
    found = [each for each in sessions if node in each.nodes and each.lease in held]
    return tuple(sorted(found, key=lambda each: (each.opened_ms, each.session)))


def _refuse_unknown(node: str, observed: dict[str, NodeObserved]) -> None:
    if node in observed:
        raise JobsLogError(
            Fault.UNKNOWN_NODE,
            f"node {node} was stated, but capacity has not published it yet",
            "it does with its next step, or at the full hour; does capacity run?",
        )
    raise JobsLogError(Fault.UNKNOWN_NODE, f"no node {node} is there", "`walras nodes` lists them")


def _heartbeats(items: Iterable[Item]) -> tuple[dict[str, Heartbeat], Barrier | None]:
    """Return when each agent was heard last, and the last barrier."""
    found: dict[str, Heartbeat] = {}
    unheard: dict[tuple[int, str], None] = {}
    last: Barrier | None = None
    for item in items:
        if isinstance(item.event, NodeHealthReported):
            found[item.key] = Heartbeat(item.event, None)
            unheard[item.partition, item.key] = None
        elif item.barrier is None:
            found.pop(item.key, None)
            unheard.pop((item.partition, item.key), None)
        else:
            if last is None or last.number < item.barrier.number:
                last = item.barrier
            heard_ms = item.barrier.market_time_ms
            for partition, key in [each for each in unheard if each[0] == item.partition]:
                found[key] = Heartbeat(found[key].report, heard_ms)
                del unheard[partition, key]
    return found, last
