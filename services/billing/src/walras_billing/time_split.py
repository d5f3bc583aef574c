"""What became of the time of a usage record, as its source measured it."""

Split = tuple[int, int, int]
"""Occupied, allocated and idle time, ms; what is left of a record was not measured."""
UNMEASURED: Split = (0, 0, 0)


def split_of(length_ms: int, running_ms: int | None, busy_ms: int | None) -> Split | None:
    """Return how the time of a record was used, as far as its figures say; None: not at all.

    Parameters
    ----------
    length_ms
        How long the record is.
    running_ms
        How long processes of the job existed; None: not measured.
    busy_ms
        How long they used the devices; None: not measured.

    Notes
    -----
    A figure says what it says without the other: the rest of the interval without processes is
    idle, busy time is occupied. Only both together tell what processes held without using it.
    Figures that contradict each other or the interval say nothing.
    """
    if busy_ms is None:
        if running_ms is None or not 0 <= running_ms < length_ms:
            return None
        return 0, 0, length_ms - running_ms
    if running_ms is None:
        return (busy_ms, 0, 0) if 0 < busy_ms <= length_ms else None
    if not 0 <= busy_ms <= running_ms <= length_ms:
        return None
    return busy_ms, running_ms - busy_ms, length_ms - running_ms
