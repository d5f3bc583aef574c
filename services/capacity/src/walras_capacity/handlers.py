"""What capacity does with each type of event."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from walras_capacity.core import counts_from_ms, fence_ms, says_the_same
from walras_capacity.state import CapacityState, observe
from walras_contracts.capacity import NodeHealthReported, NodeObserved, NodeState
from walras_contracts.event import Event


@dataclass(frozen=True, slots=True)
class Work:
    """One step under way; ``first`` is step 0, in which everything counts at once."""

    state: CapacityState
    market_time_ms: int
    first: bool


Handler = Callable[[Work, Event], None]


def on_observed(work: Work, event: Event) -> None:
    """Take what an importer or an operator states; the latest statement about a node wins."""
    assert isinstance(event, NodeObserved)
    if event.fenced:
        fence(work, event)
    node = work.state.node(event.node)
    counts_ms = counts_from_ms(work.market_time_ms)
    at_once = work.first or event.urgent or counts_ms == work.market_time_ms
    if says_the_same(node.current, event):
        # Nothing to change, but a change that was to come is overruled.
        if node.coming is not None:
            work.state.put(event.node, replace(node, coming=None, coming_ms=0))
        return
    if not at_once and says_the_same(node.coming, event):
        return
    work.state.put(event.node, observe(node, event, None if at_once else counts_ms))


def fence(work: Work, event: NodeObserved) -> None:
    """Take that nothing of what was started before runs on a node; it counts at once.

    Said again, it changes nothing. The node is as one that never had an agent: not lost, and none
    is expected to speak before one has.
    """
    node = work.state.node(event.node)
    fenced_ms = fence_ms(event.observed_ms, work.market_time_ms)
    if node.fenced_ms is None or node.fenced_ms < fenced_ms:
        deaf = work.state.heartbeats.read
        work.state.put(event.node, replace(node, fenced_ms=fenced_ms, lost=False, deaf=deaf))


def on_health(work: Work, event: Event) -> None:
    """Take which devices of a node must not be used; it counts at once."""
    assert isinstance(event, NodeHealthReported)
    set_health(work, event.node, event.unhealthy_devices)


def set_health(work: Work, name: str, unhealthy: tuple[int, ...]) -> None:
    """Replace the unhealthy devices of a node, known or not yet."""
    node = work.state.node(name)
    ordered = tuple(sorted(unhealthy))
    if ordered != node.unhealthy:
        work.state.put(name, replace(node, unhealthy=ordered))


def hear(work: Work, name: str, offset: int) -> None:
    """Take that the agent of a node spoke: it is not lost (any more)."""
    node = work.state.node(name)
    if node.lost and offset > node.deaf:
        work.state.put(name, replace(node, lost=False))


def lose_silent(work: Work, timeout_ms: int) -> None:
    """Mark the nodes as lost that have been silent for too long since they spoke."""
    for name, offset in work.state.heartbeats.silent(timeout_ms):
        node = work.state.node(name)
        is_there = node.current is not None and node.current.state is not NodeState.GONE
        if is_there and not node.lost and offset > node.deaf:
            work.state.put(name, replace(node, lost=True))


def apply_coming(work: Work) -> None:
    """Let the observations count whose hour has come."""
    for name in work.state.take_coming(work.market_time_ms):
        node = work.state.node(name)
        assert node.coming is not None
        work.state.put(name, observe(node, node.coming, None))


HANDLERS: Final[dict[str, Handler]] = {
    NodeObserved.TYPE: on_observed,
    NodeHealthReported.TYPE: on_health,
}
