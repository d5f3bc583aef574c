"""The emptying of nodes: who is asked to leave, and how far it has come. Pure functions."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from walras_contracts.drains import NodeDrainChanged, NodeDrainState
from walras_contracts.identifiers import recorded
from walras_drain.parts import BLOCKERS_MAX, TEXT_MAX

PREFIX: Final = "node/"


@dataclass(frozen=True, slots=True)
class Occupant:
    """A lease on a node that is being emptied; ``can_leave``: drainable, or broken anyway."""

    lease: str
    team: str
    job: str
    can_leave: bool


@dataclass(frozen=True, slots=True)
class Emptying:
    """A node that is being emptied, as it was last published.

    ``escalated``: its teams were told that its time is over.
    """

    state: NodeDrainState
    leases: int
    blockers: tuple[str, ...]
    since_ms: int
    deadline_ms: int
    within_ms: int
    escalated: bool = False

    def shown(self, node: str, now_ms: int) -> NodeDrainChanged:
        """Return the event at a market time."""
        return NodeDrainChanged(
            node=node,
            state=self.state,
            leases=self.leases,
            blockers=self.blockers,
            since_ms=self.since_ms,
            deadline_ms=self.deadline_ms,
            changed_ms=now_ms,
        )

    def later(self, by_ms: int) -> "Emptying":
        """Return it with a deadline that is later."""
        return replace(self, deadline_ms=self.deadline_ms + by_ms)

    def told(self) -> "Emptying":
        """Return it with its teams told that its time is over."""
        return replace(self, escalated=True)

    def dump(self) -> bytes:
        """Return the record of the own state."""
        fields = [
            self.state.value,
            self.leases,
            self.blockers,
            self.since_ms,
            self.deadline_ms,
            self.within_ms,
            self.escalated,
        ]
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def parse(value: bytes) -> "Emptying":
        """Read the record of the own state."""
        state, leases, blockers, *rest = json.loads(value)
        return Emptying(NodeDrainState(state), leases, tuple(blockers), *rest)


def asked_to_leave(occupants: Sequence[Occupant], *, urgent: bool) -> list[str]:
    """Return who is asked to leave a node: all, or, while one cannot and it is not urgent, none.

    A node that cannot be emptied is not half emptied: that would disturb some for nothing.
    """
    if urgent or all(occupant.can_leave for occupant in occupants):
        return [occupant.lease for occupant in occupants]
    return []


def progress(
    before: Emptying | None,
    occupants: Sequence[Occupant],
    *,
    urgent: bool,
    within_ms: int,
    now_ms: int,
) -> Emptying:
    """Return how far the emptying of a node has come.

    Parameters
    ----------
    before
        As it was last published; None: it begins now.
    occupants
        The leases that have a part there.
    urgent
        Whether all have to leave, whatever they declare.
    within_ms
        How long it may take; where that was changed, the deadline changes with it.
    now_ms
        Market time of the step.
    """
    since_ms = now_ms if before is None else before.since_ms
    deadline_ms = now_ms + within_ms
    if before is not None:
        deadline_ms = before.deadline_ms + within_ms - before.within_ms
    stay = [occupant for occupant in occupants if not occupant.can_leave]
    if not occupants:
        state, named = NodeDrainState.DRAINED, occupants
    elif now_ms > deadline_ms:
        state, named = NodeDrainState.STUCK, occupants
    elif stay and not urgent:
        state, named = NodeDrainState.BLOCKED, stay
    else:
        state, named = NodeDrainState.DRAINING, occupants
    return Emptying(
        state,
        len(occupants),
        blockers_of(named),
        since_ms,
        deadline_ms,
        within_ms,
        before is not None and before.escalated,
    )


def blockers_of(occupants: Iterable[Occupant]) -> tuple[str, ...]:
    """Return who is on a node, in words."""
    found = [
        f"{o.lease} of team {o.team}"
        + ("" if o.can_leave else " declares that it cannot be drained")
        for o in occupants
    ]
    return tuple(recorded(text, TEXT_MAX) for text in found[:BLOCKERS_MAX])
