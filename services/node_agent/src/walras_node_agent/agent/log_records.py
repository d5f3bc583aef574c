"""What the log says of this node, and how its decisions follow it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from walras_contracts.drains import DrainCommanded
from walras_contracts.event import Event
from walras_contracts.work import LeaseGranted, LeaseStatusChanged
from walras_node_agent.agent.node import Node


@dataclass(frozen=True, slots=True)
class Change:
    """A record of this node: of which topic and lease; ``event`` None: it ended."""

    topic: str
    lease: str
    event: Event | None


@dataclass(frozen=True, slots=True)
class Reached:
    """So far the log was read, by topic: what comes later lies behind these barriers."""

    barriers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Table:
    """All that the log says of this node when it was read from its beginning, by lease.

    ``barriers``: the newest of each topic; -1 where there is none.
    """

    leases: Mapping[str, LeaseGranted] = field(default_factory=dict)
    commands: Mapping[str, DrainCommanded] = field(default_factory=dict)
    statuses: Mapping[str, LeaseStatusChanged] = field(default_factory=dict)
    barriers: Mapping[str, int] = field(default_factory=dict)


def table_of(changes: Iterable[Change], barriers: Mapping[str, int]) -> Table:
    """Return the table that the latest records of each topic and lease make."""
    leases: dict[str, LeaseGranted] = {}
    commands: dict[str, DrainCommanded] = {}
    statuses: dict[str, LeaseStatusChanged] = {}
    for change in changes:
        event = change.event
        if isinstance(event, LeaseGranted):
            leases[change.lease] = event
        elif isinstance(event, DrainCommanded):
            commands[change.lease] = event
        elif isinstance(event, LeaseStatusChanged):
            statuses[change.lease] = event
    return Table(leases, commands, statuses, dict(barriers))


def went_back(seen: Mapping[str, int], barriers: Mapping[str, int]) -> list[str]:
    """Return the topics that hold less than was seen before: it is not the same log."""
    return sorted(topic for topic, number in seen.items() if barriers.get(topic, -1) < number)


def follow_table(
    node: Node, table: Table, held: Mapping[int, str], now_ms: int, *, same_log: bool
) -> None:
    """Bring a node in line with all that the log says.

    Parameters
    ----------
    node
        The node.
    table
        What the log says.
    held
        Devices that must not be given to anybody, with the reason.
    now_ms
        Since boot.
    same_log
        Whether what the table does not name has ended. In a log that was made anew nothing has:
        what runs is not dropped because the log is gone.
    """
    for lease, grant in sorted(table.leases.items()):
        told = table.statuses.get(lease)
        if lease not in node.parts and told is not None:
            node.recall(grant, told, now_ms)
        node.grant(grant, held, now_ms)
    for _, command in sorted(table.commands.items()):
        node.command(command, now_ms)
    if not same_log:
        return
    for lease in sorted(node.parts.keys() | node.commands.keys()):
        if lease not in table.commands:
            node.end_session(lease, now_ms)
        if lease not in table.leases:
            node.end_lease(lease, now_ms)


def follow_change(node: Node, change: Change, held: Mapping[int, str], now_ms: int) -> None:
    """Bring a node in line with one record."""
    event = change.event
    if isinstance(event, LeaseGranted):
        node.grant(event, held, now_ms)
    elif isinstance(event, DrainCommanded):
        node.command(event, now_ms)
    elif event is None and change.topic == LeaseGranted.TOPIC:
        node.end_lease(change.lease, now_ms)
    elif event is None and change.topic == DrainCommanded.TOPIC:
        node.end_session(change.lease, now_ms)
