"""What nodes amount to: pure functions from observations to supply."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from walras_contracts.capacity import NodeObserved, NodePublished, NodeState, OwnSupply

HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Share:
    """What one node adds to its type.

    ``present_macc`` can be sold, ``withheld_macc`` cannot; ``contracted_macc`` is what the owner
    owns of it whether it works or not.
    """

    present_macc: int
    withheld_macc: int
    owner_pool: str | None
    contracted_macc: int


@dataclass(frozen=True, slots=True)
class Supply:
    """What a type has to sell; ``own`` sorted by pool, pools without any left out."""

    shared_macc: int
    own: tuple[OwnSupply, ...]
    withheld_macc: int


def counts_from_ms(market_time_ms: int) -> int:
    """Return from when an ordinary change counts: the first full hour that is not before it.

    A change that is read in a step lies before that step's barrier; where the barrier falls on a
    full hour, that hour is the next one.
    """
    return -(-market_time_ms // HOUR_MS) * HOUR_MS


def fence_ms(observed_ms: int, market_time_ms: int) -> int:
    """Return up to when what was granted is known not to run on a node any more.

    What is granted in the step that reads the statement, or later, begins after it, whatever the
    operator's clock says.
    """
    return max(0, min(observed_ms, market_time_ms - 1))


def says_the_same(one: NodeObserved | None, other: NodeObserved) -> bool:
    """Whether two observations state the same node, whenever they do.

    How urgent they are matters where the node is to be emptied.
    """
    return one is not None and _statement(one) == _statement(other)


def withheld_devices(node: NodeObserved, unhealthy: tuple[int, ...]) -> tuple[int, ...]:
    """Return the unhealthy devices that the node really has, ascending."""
    return tuple(sorted(index for index in unhealthy if index < node.devices))


def share_of(node: NodeObserved, unhealthy: tuple[int, ...], *, lost: bool = False) -> Share:
    """Return what a node adds to its type; only what an active node has can be sold.

    Parameters
    ----------
    node
        The observation that counts.
    unhealthy
        Indices of devices that must not be used; those beyond the node's devices are passed over.
    lost
        Whether its agent has been silent for too long.
    """
    if node.state is NodeState.GONE:
        return Share(0, 0, None, 0)
    total_macc = node.devices * node.macc_per_device
    broken = len(withheld_devices(node, unhealthy))
    present_macc = total_macc - broken * node.macc_per_device
    if lost or node.state is not NodeState.ACTIVE:
        present_macc = 0
    return Share(
        present_macc,
        total_macc - present_macc,
        node.owner_pool,
        total_macc if node.owner_pool is not None else 0,
    )


def published(
    node: NodeObserved,
    unhealthy: tuple[int, ...],
    *,
    lost: bool = False,
    fenced_ms: int | None = None,
) -> NodePublished:
    """Return a node as placement may use it."""
    return NodePublished(
        node=node.node,
        type=node.type,
        cell=node.cell,
        devices=node.devices,
        macc_per_device=node.macc_per_device,
        owner_pool=node.owner_pool,
        withheld_devices=withheld_devices(node, unhealthy),
        state=node.state,
        domain=node.domain,
        drain_within_ms=node.drain_within_ms,
        urgent=_is_urgent_drain(node),
        lost=lost,
        fenced_ms=fenced_ms,
    )


def supply_of(present_macc: int, withheld_macc: int, contracted: Mapping[str, int]) -> Supply:
    """Return what is shared and what each pool owns.

    A loss takes shared supply first (design §2): pools keep what they contracted while what is
    present covers it. Where it does not, each gets its part of it, rounded down, and the macc that
    are left go one each to the first pools by id.

    Parameters
    ----------
    present_macc
        All that can be sold of the type.
    withheld_macc
        All that is there but cannot be sold.
    contracted
        Per pool what it owns, working or not.
    """
    pools = sorted(pool for pool, macc in contracted.items() if macc > 0)
    total_macc = sum(contracted[pool] for pool in pools)
    if total_macc <= present_macc:
        own = tuple(OwnSupply(pool=pool, macc=contracted[pool]) for pool in pools)
        return Supply(present_macc - total_macc, own, withheld_macc)
    parts = [contracted[pool] * present_macc // total_macc for pool in pools]
    left = present_macc - sum(parts)
    own = tuple(
        OwnSupply(pool=pool, macc=part + (1 if place < left else 0))
        for place, (pool, part) in enumerate(zip(pools, parts, strict=True))
    )
    return Supply(0, tuple(item for item in own if item.macc > 0), withheld_macc)


def _statement(node: NodeObserved) -> tuple[object, ...]:
    return (
        node.node,
        node.type,
        node.cell,
        node.devices,
        node.macc_per_device,
        node.owner_pool,
        node.state,
        node.domain,
        node.drain_within_ms,
        _is_urgent_drain(node),
    )


def _is_urgent_drain(node: NodeObserved) -> bool:
    return node.urgent and node.state is NodeState.DRAINING
