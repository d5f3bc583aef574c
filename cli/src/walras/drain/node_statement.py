"""What an operator states about a node: its last observation once more, in another state."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.folding import latest, market_now_ms
from walras.jobs_log.items import Log
from walras.nodes.words import leases_words
from walras_contracts.capacity import NodeObserved, NodePublished, NodeState
from walras_contracts.drains import NodeDrainChanged, NodeDrainState
from walras_contracts.work import LeaseGranted

TOPICS: Final = ("inventory", "nodes", "drain.sessions", "leases")
HOUR_MS: Final = 3_600_000
SOURCE: Final = "walras/operator"


class Goal(StrEnum):
    """What is asked of a node."""

    DRAIN = "drain"
    OFF = "off"
    ON = "on"
    KEEP = "keep"
    """Its state stays; only what was started before is fenced."""


STATE_OF: Final = {
    Goal.DRAIN: NodeState.DRAINING,
    Goal.OFF: NodeState.OFF,
    Goal.ON: NodeState.ACTIVE,
}


@dataclass(frozen=True, slots=True)
class NodeNow:
    """A node as the log shows it; ``published`` None: capacity has not told of it yet."""

    observed: NodeObserved
    published: NodePublished | None
    drain: NodeDrainChanged | None
    leases: tuple[LeaseGranted, ...]

    @property
    def is_empty(self) -> bool:
        """Whether it was drained: nothing runs there, and nothing starts there any more."""
        published, drain = self.published, self.drain
        return (
            published is not None
            and published.state is not NodeState.ACTIVE
            and not self.leases
            and (drain is None or drain.state is NodeDrainState.DRAINED)
        )


def find_node(log: Log, node: str) -> NodeNow:
    """Return a node that something can be stated about.

    Raises
    ------
    JobsLogError
        Nobody ever stated that there is such a node, it is gone, or the log cannot be read.
    """
    published = latest(log, NodePublished).get(node)
    drain = latest(log, NodeDrainChanged).get(f"node/{node}")
    leases = [part for part in latest(log, LeaseGranted).values() if part.node == node]
    observed = _last_observation(log, node)
    if observed is None:
        raise JobsLogError(
            Fault.UNKNOWN_NODE, f"no node {node} is in the inventory", "`walras nodes` lists them"
        )
    if observed.state is NodeState.GONE:
        raise JobsLogError(
            Fault.NODE_GONE,
            f"node {node} is gone",
            "what brings it back is its importer's statement that it is there",
        )
    return NodeNow(observed, published, drain, tuple(sorted(leases, key=lambda each: each.lease)))


def statement(
    now: NodeNow,
    goal: Goal,
    *,
    urgent: bool,
    fence: bool,
    force: bool,
    within_ms: int | None,
    now_ms: int,
) -> NodeObserved:
    """Return the node's observation as it is to be stated.

    Parameters
    ----------
    now
        The node as it is.
    goal
        What is asked of it.
    urgent
        Of a drain: what cannot be drained leaves, too; an urgent one stays so. Of any: it counts at
        once. Off always does: what was drained is not sold in any case.
    fence
        Whether nothing of what was started before runs there any more.
    force
        Whether it may be switched off although it is not drained.
    within_ms
        How long its emptying may take; None: as stated before.
    now_ms
        Market time.

    Raises
    ------
    JobsLogError
        It is to be off and is not drained.
    """
    observed = now.observed
    if goal is Goal.OFF and not now.is_empty and not force:
        raise JobsLogError(
            Fault.NOT_DRAINED,
            f"node {observed.node} is not drained: {occupancy(now)}",
            f"`walras drain {observed.node}` empties it first; --force states it all the same",
        )
    changes: dict[str, object] = {"observed_ms": now_ms, "fenced": fence}
    if goal is not Goal.KEEP:
        # To ask again how an urgent drain goes does not make it wait.
        stays_urgent = goal is Goal.DRAIN and _is_urgent_drain(observed)
        changes["state"] = STATE_OF[goal]
        changes["urgent"] = urgent or goal is Goal.OFF or stays_urgent
    if within_ms is not None:
        changes["drain_within_ms"] = within_ms
    return observed.model_copy(update=changes)


def occupancy(now: NodeNow) -> str:
    """Return who is on a node, and how far its emptying is."""
    state = "not told yet" if now.published is None else now.published.state.value
    words = [f"it is {state}"]
    if now.leases:
        words.append(f"{leases_words(len(now.leases))} on it: {_names(now.leases)}")
    else:
        words.append("no lease holds devices now")
    if now.drain is not None:
        words.append(f"its drain is {now.drain.state.value}")
    return ", ".join(words)


def what_force_does(now: NodeNow) -> str:
    """Return what it means to switch off a node that is not drained."""
    if not now.leases:
        return "it is not drained; a job that was just started there is not asked to leave"
    return (
        f"it is not drained: what runs there goes on ({leases_words(len(now.leases))}: "
        f"{_names(now.leases)}) and is not asked to leave; nothing starts there any more"
    )


def is_stated(now: NodeNow, wanted: NodeObserved) -> bool:
    """Whether the last statement about a node says the same; a fence is stated each time."""
    same = wanted.model_copy(update={"observed_ms": now.observed.observed_ms})
    return not wanted.fenced and same == now.observed


def counts_from_ms(wanted: NodeObserved, now_ms: int) -> int | None:
    """Return from when a statement counts that is made now; None: at once."""
    return None if wanted.urgent else -(-(now_ms + 1) // HOUR_MS) * HOUR_MS


def market_time_ms(log: Log, node: str) -> int:
    """Return the market time of a statement.

    Raises
    ------
    JobsLogError
        The log cannot be read.
    """
    return market_now_ms(log, NodeObserved.TOPIC, node)


def _last_observation(log: Log, node: str) -> NodeObserved | None:
    for stretch in log.backwards(NodeObserved.TOPIC, NodeObserved, partition_key=node):
        for item in reversed(stretch):
            if isinstance(item.event, NodeObserved) and item.event.node == node:
                return item.event
    return None


def _is_urgent_drain(observed: NodeObserved) -> bool:
    return observed.urgent and observed.state is NodeState.DRAINING


def _names(leases: tuple[LeaseGranted, ...]) -> str:
    names = [f"{part.team}/{part.job}" for part in leases]
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
