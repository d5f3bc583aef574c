"""Events that the log has not acknowledged yet, in order; the journal keeps them on disk."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from walras_node_agent.agent.outgoing import Outgoing

_OVERHEAD_BYTES: Final = 300
"""Of an event beside its payload, about."""


class Spool:
    """A queue with dense numbers.

    Parameters
    ----------
    events
        What an earlier process left, by number.
    next_number
        Of the next event.
    most_bytes
        Above this it is :attr:`full`: use is cut later then, what else happens still goes in.
    """

    def __init__(
        self, events: Iterable[tuple[int, Outgoing]], next_number: int, most_bytes: int
    ) -> None:
        self._events: deque[tuple[int, Outgoing]] = deque(events)
        self._bytes = sum(_size(event) for _, event in self._events)
        self._most_bytes = most_bytes
        self.next_number = next_number

    def __len__(self) -> int:
        return len(self._events)

    @property
    def full(self) -> bool:
        """Whether what can wait should."""
        return self._bytes > self._most_bytes

    def put(self, events: Sequence[Outgoing]) -> None:
        """Take events that the journal has."""
        for number, event in enumerate(events, self.next_number):
            self._events.append((number, event))
            self._bytes += _size(event)
        self.next_number += len(events)

    def oldest(self, most: int) -> list[tuple[int, Outgoing]]:
        """Return the oldest events, in order."""
        return [self._events[place] for place in range(min(most, len(self._events)))]

    def everything(self) -> list[tuple[int, Outgoing]]:
        """Return all events, in order."""
        return list(self._events)

    def acknowledge(self, below: int) -> None:
        """Drop the events below a number: the log has them."""
        while self._events and self._events[0][0] < below:
            _, event = self._events.popleft()
            self._bytes -= _size(event)


def _size(event: Outgoing) -> int:
    return _OVERHEAD_BYTES + len(event.payload or "")
