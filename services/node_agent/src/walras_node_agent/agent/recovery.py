"""What an agent that comes back knows: its journal, folded.

Entries: ``start`` of a process (its boot and the distance of its clocks); ``turn``, what it decided
(parts as they are then and what they owe, events with their numbers, commands without a lease);
``acknowledged``, up to which number the log has the events; ``seen``, the newest barrier of each
topic.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from walras_contracts.drains import DrainCommanded
from walras_contracts.work import UsageMetered
from walras_node_agent.agent.held_part import HeldPart
from walras_node_agent.agent.node import Node, Turn
from walras_node_agent.agent.outgoing import Outgoing

CHUNK: Final = 500
"""So many events are kept in one entry of a shortened journal."""

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Start:
    """A process of the agent: in which boot, and how far the wall clock was from it."""

    boot: str
    offset_ms: int


@dataclass(slots=True)
class Recovered:
    """What the journal says."""

    parts: dict[str, HeldPart] = field(default_factory=dict)
    commands: dict[str, DrainCommanded] = field(default_factory=dict)
    owed: dict[str, UsageMetered] = field(default_factory=dict)
    events: dict[int, Outgoing] = field(default_factory=dict)
    """Not acknowledged, by number, in order."""
    next_number: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    start: Start | None = None
    """The last one; None: there was none."""


def recover(entries: Iterable[Entry]) -> Recovered:
    """Fold the entries of a journal."""
    found = Recovered()
    acknowledged = 0
    for entry in entries:
        if "start" in entry:
            found.start = Start(*entry["start"])
        if "seen" in entry:
            found.seen.update(entry["seen"])
        for lease, document in entry.get("parts", {}).items():
            if document is None:
                found.parts.pop(lease, None)
            else:
                found.parts[lease] = HeldPart.parse(document)
            found.owed.pop(lease, None)
        for lease, document in entry.get("owed", {}).items():
            found.owed[lease] = UsageMetered.model_validate(document)
        if "commands" in entry:
            commands = map(DrainCommanded.model_validate, entry["commands"])
            found.commands = {command.lease: command for command in commands}
        first = entry.get("first", found.next_number)
        events = entry.get("events", [])
        found.events.update(enumerate(map(Outgoing.parse, events), first))
        found.next_number = first + len(events)
        acknowledged = max(acknowledged, entry.get("acknowledged", 0))
    for number in [n for n in found.events if n < acknowledged]:
        del found.events[number]
    return found


def give_back(recovered: Recovered, node: Node) -> None:
    """Give a node what its journal knows of its parts."""
    node.parts = recovered.parts
    node.commands = recovered.commands
    node.owed = recovered.owed


def offset_for(start: Start | None, boot: str, offset_ms: int, tolerance_ms: int) -> int:
    """Return the distance of the clocks to go on with.

    Within one boot the last one stays, so that times that were told stay what they were; unless
    the wall clock was set since by more than the tolerance.
    """
    if start is None or start.boot != boot:
        return offset_ms
    kept = abs(start.offset_ms - offset_ms) <= tolerance_ms
    return start.offset_ms if kept else offset_ms


def move_into(recovered: Recovered, boot: str, offset_ms: int) -> int:
    """Move what was known in an earlier boot to the present one.

    Returns
    -------
    int
        By how much times of the earlier boot were moved; 0 where it is the same.
    """
    start = recovered.start
    if start is None or start.boot == boot:
        return 0
    by_ms = start.offset_ms - offset_ms
    recovered.parts = {lease: part.moved(by_ms) for lease, part in recovered.parts.items()}
    return by_ms


def start_entry(boot: str, offset_ms: int) -> Entry:
    """Return the entry that a process begins with."""
    return {"start": [boot, offset_ms]}


def turn_entry(node: Node, turn: Turn, first: int) -> Entry | None:
    """Return what is to be kept of a turn, events numbered from ``first``; None: nothing."""
    entry: Entry = {}
    if turn.changed:
        held = {lease: node.parts.get(lease) for lease in turn.changed}
        entry["parts"] = {n: None if part is None else part.dump() for n, part in held.items()}
        owed = {n: _dumped(node.owed[n]) for n in turn.changed if n in node.owed}
        entry.update({"owed": owed} if owed else {})
    if turn.commands_changed:
        entry["commands"] = [_dumped(command) for command in node.commands.values()]
    if turn.events:
        entry["first"] = first
        entry["events"] = [event.dump() for event in turn.events]
    return entry or None


def acknowledged_entry(number: int) -> Entry:
    """Return that the log has all events below a number."""
    return {"acknowledged": number}


def seen_entry(barriers: Mapping[str, int]) -> Entry:
    """Return the newest barrier of each topic that was read."""
    return {"seen": dict(barriers)}


def whole(
    node: Node,
    start: Start,
    events: Sequence[tuple[int, Outgoing]],
    next_number: int,
    barriers: Mapping[str, int],
) -> Iterator[Entry]:
    """Return all that is known as entries, to take the place of those that led to it."""
    yield {**start_entry(start.boot, start.offset_ms), **seen_entry(barriers)}
    yield {
        "parts": {lease: part.dump() for lease, part in node.parts.items()},
        "commands": [_dumped(command) for command in node.commands.values()],
        "owed": {lease: _dumped(usage) for lease, usage in node.owed.items()},
        "first": events[0][0] if events else next_number,
    }
    for place in range(0, len(events), CHUNK):
        chunk = events[place : place + CHUNK]
        yield {"first": chunk[0][0], "events": [event.dump() for _, event in chunk]}


def _dumped(event: DrainCommanded | UsageMetered) -> dict[str, Any]:
    return event.model_dump(mode="json")
