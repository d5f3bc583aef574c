"""What the notifier remembers: deliveries in their lanes, and how far each partition has come."""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from walras_contracts.drains import NotificationIssued

NOTE_MAX: Final = 4_000
"""Bytes of a note that the broker keeps beside a position."""


@dataclass(slots=True)
class Delivery:
    """One notice for one receiver; it ends at ``limit_ms`` on the monotonic clock."""

    partition: int
    offset: int
    notice: NotificationIssued
    limit_ms: int
    attempts: int = 0
    why: str = ""
    """How the last attempt failed."""


@dataclass(slots=True)
class Lane:
    """What one team has for one receiver, in order; only its first is being delivered."""

    partition: int
    team: str
    queue: deque[Delivery] = field(default_factory=deque)
    due_ms: int = 0
    running: bool = False


@dataclass(slots=True)
class Track:
    """How far a partition has come.

    All before ``read`` was taken. ``open``: per receiver the offsets of what is not over, in
    order. ``done``: for receivers that had come further, or less far, than ``start`` when the
    partition was begun, the offset before which nothing is left to do for them; ``start`` is that
    offset for all others.
    """

    read: int
    start: int
    done: dict[str, int] = field(default_factory=dict)
    open: dict[str, dict[int, None]] = field(default_factory=dict)

    def left_for(self, receiver: str, offset: int) -> bool:
        """Whether a record was not brought to a receiver before the partition was begun."""
        return offset >= self.done.get(receiver, self.start)

    def opened(self, receiver: str, offset: int) -> None:
        """Note that a receiver is to get a record."""
        self.open.setdefault(receiver, {})[offset] = None

    def closed(self, receiver: str, offset: int) -> None:
        """Note that it has got it, or will not."""
        offsets = self.open[receiver]
        del offsets[offset]
        if not offsets:
            del self.open[receiver]

    def behind(self) -> dict[str, int]:
        """Return the first offset that is not over, of each receiver that has one."""
        found = {name: min(offsets) for name, offsets in self.open.items()}
        for name, offset in self.done.items():
            # What is left for it has not all been read again.
            if offset < self.start and self.read < self.start:
                found.setdefault(name, max(offset, self.read))
        return found


def position_of(track: Track) -> tuple[int, str]:
    """Return the offset before which all is over, and a note of who has come further.

    The note names the receivers that are behind, so that a restart repeats nothing to the others.
    Where they are too many for it, those that are least behind count as if all had come no
    further than they.
    """
    read = max(track.read, track.start)
    behind = sorted(track.behind().items(), key=lambda item: (item[1], item[0]))
    while behind:
        note = json.dumps({"read": read, "behind": dict(behind)}, separators=(",", ":"))
        if len(note) <= NOTE_MAX:
            return behind[0][1], note
        _, read = behind.pop()
        behind = [item for item in behind if item[1] < read]
    return read, ""


def track_of(offset: int, note: str) -> Track:
    """Return the track that a position and its note stand for.

    A note that is not one of ours counts as none: somebody has moved the position by hand.
    """
    try:
        document = json.loads(note)
        start, behind = document["read"], document["behind"]
    except (ValueError, TypeError, KeyError):
        return Track(offset, offset)
    if not (type(start) is int and isinstance(behind, Mapping) and behind and start > offset):
        return Track(offset, offset)
    if any(type(each) is not int or not offset <= each <= start for each in behind.values()):
        return Track(offset, offset)
    return Track(offset, start, dict(behind))
