"""One node: its devices, who holds them, who waits for them, which are open."""

from dataclasses import dataclass, field

from walras_contracts.capacity import NodeState
from walras_placement.topology import DomainKey
from walras_runtime.errors import InvariantBrokenError

LEAVES_AT_ONCE = frozenset({NodeState.WITHHELD, NodeState.GONE})
"""States of a node in which no lease may go on there."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Who holds a device, and as what it was given; not ``live``: no run uses it any more."""

    lease: str
    type: str
    macc: int
    live: bool = True


@dataclass(slots=True)
class Node:
    """A node: ``usable`` devices may be given, on ``sound`` ones a lease may go on."""

    type: str = ""
    domain: DomainKey = ("", "")
    macc_per_device: int = 0
    sound: frozenset[int] = frozenset()
    usable: frozenset[int] = frozenset()
    known: bool = False
    """Whether capacity says anything of it."""
    lost: bool = False
    fenced_ms: int | None = None
    held: dict[int, Hold] = field(default_factory=dict)
    reserved: dict[int, str] = field(default_factory=dict)
    """Devices that a job waits for, free or held by a lease that leaves."""
    open: list[int] = field(default_factory=list)
    """Usable, held by nobody, reserved for nobody; ascending."""

    def goes_on(self, device: int) -> bool:
        """Whether a held device may still be used as what it was given as."""
        hold = self.held[device]
        same = hold.type == self.type and hold.macc == self.macc_per_device
        return same and device in self.sound


def check_node(name: str, node: Node) -> None:
    """Compare what is open on a node with what is held and reserved there."""
    taken = sum(1 for d in node.usable if d in node.held or d in node.reserved)
    is_apart = not any(device in node.held or device in node.reserved for device in node.open)
    if not is_apart or taken + len(node.open) != len(node.usable):
        raise InvariantBrokenError(
            f"node {name}: {taken} devices held or reserved and {len(node.open)} open of "
            f"{len(node.usable)}"
        )
