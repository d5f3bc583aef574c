"""Exact bisection for the least value from which on something holds."""

from collections.abc import Callable


def least_holding(first: int, last: int, holds: Callable[[int], bool], start: int) -> int | None:
    """Return the least value of a range at which a predicate holds, or None where it never does.

    The predicate is taken to stay true once it is true, and to be false below the range. If it does
    not stay so, what is returned still holds, and the value below it does not.

    Parameters
    ----------
    first, last
        The range, both included.
    holds
        The predicate; called about 2·log₂ of the distance between `start` and the answer.
    start
        A value near the expected answer. It changes the time taken, and nothing else where the
        predicate stays true.
    """
    if first > last or not holds(last):
        return None
    low, high = first - 1, last
    if first <= start < last:
        low, high = _gallop(low, high, holds, start)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _gallop(low: int, high: int, holds: Callable[[int], bool], start: int) -> tuple[int, int]:
    """Narrow a bracket (false, true] by growing steps away from a start inside it."""
    step = 1
    if holds(start):
        high = start
        while high - step > low:
            if not holds(high - step):
                return high - step, high
            high, step = high - step, 2 * step
        return low, high
    low = start
    while low + step < high:
        if holds(low + step):
            return low, low + step
        low, step = low + step, 2 * step
    return low, high
