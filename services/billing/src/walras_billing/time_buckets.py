"""Things that fall due at a market time, handed out when it has come."""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar

T = TypeVar("T")


class TimeBuckets(Generic[T]):
    """Items by the time at which they are due; many share one, since usage is cut on a grid."""

    def __init__(self) -> None:
        self._times_ms: list[int] = []
        self._items: dict[int, list[T]] = {}

    def put(self, due_ms: int, item: T) -> None:
        """Take an item."""
        try:
            self._items[due_ms].append(item)
        except KeyError:
            self._items[due_ms] = [item]
            heappush(self._times_ms, due_ms)

    def take(self, now_ms: int) -> Iterator[T]:
        """Yield what is due at or before an instant, earliest first, and forget it."""
        while self._times_ms and self._times_ms[0] <= now_ms:
            yield from self._items.pop(heappop(self._times_ms))
