"""Judges of use: for each part of a lease no overlap, and no gap beyond the heartbeat."""

from collections.abc import Iterable
from itertools import pairwise

from tests.chaos_drains.history import History
from walras_contracts.work import LeaseState, LeaseStatusChanged, UsageMetered

Source = tuple[str, str, int]


def usage_by_source(history: History) -> dict[Source, dict[int, UsageMetered]]:
    """Return use by (lease, node, attempt) and number; of a number told twice the first."""
    found: dict[Source, dict[int, UsageMetered]] = {}
    for _, usage in history.of(UsageMetered):
        source = (usage.lease, usage.node, usage.attempt)
        found.setdefault(source, {}).setdefault(usage.seq, usage)
    return found


def numbered_wrong(history: History) -> list[str]:
    """Return sources with a number left out, or one told with two bodies."""
    faults = []
    found = usage_by_source(history)
    for _, usage in history.of(UsageMetered):
        source = (usage.lease, usage.node, usage.attempt)
        if found[source][usage.seq] != usage:
            faults.append(f"use {source} {usage.seq} was told with two bodies")
    return faults + [
        f"use {source}: numbers {sorted(pieces)}"
        for source, pieces in found.items()
        if sorted(pieces) != list(range(len(pieces)))
    ]


def overlaps_and_gaps(history: History) -> list[str]:
    """Return where use of a source overlaps, or leaves more than a heartbeat out."""
    faults = []
    for source, pieces in usage_by_source(history).items():
        for first, second in _neighbours(pieces):
            between_ms = second.start_ms - first.end_ms
            if between_ms < 0:
                faults.append(f"use {source} {second.seq} overlaps by {-between_ms} ms")
            elif between_ms > history.times.heartbeat_ms:
                faults.append(f"use {source} {second.seq} begins {between_ms} ms late")
    return faults


def largest_gap_ms(history: History) -> int:
    """Return the largest gap within the use of a source."""
    return max(
        (
            later.start_ms - earlier.end_ms
            for pieces in usage_by_source(history).values()
            for earlier, later in _neighbours(pieces)
        ),
        default=0,
    )


def not_metered(history: History) -> list[str]:
    """Return processes, and times up to `freed`, that use does not cover but for a heartbeat."""
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for (lease, node, _), pieces in usage_by_source(history).items():
        # Behind its end a start may have to pay for more: nothing ran in that.
        ran = [piece for piece in pieces.values() if not piece.is_rest_of_start]
        if ran:
            spans[lease, node] = min(u.start_ms for u in ran), max(u.end_ms for u in ran)
    slack_ms = history.times.heartbeat_ms
    faults = []
    for life in history.lives:
        start_ms, end_ms = spans.get((life.lease, life.node), (life.last_ms, life.start_ms))
        if life.start_ms < start_ms - slack_ms or life.last_ms > end_ms + slack_ms:
            faults.append(
                f"{life.lease} on {life.node}: process {life.pid} lived from {life.start_ms} to "
                f"{life.last_ms}, use is from {start_ms} to {end_ms}"
            )
    for _, status in history.of(LeaseStatusChanged):
        span = spans.get((status.lease, status.node))
        is_freed = status.state is LeaseState.FREED
        if is_freed and span is not None and abs(status.at_ms - span[1]) > slack_ms:
            faults.append(
                f"{status.lease} on {status.node} was freed at {status.at_ms}, use ends at "
                f"{span[1]}"
            )
    return faults


def _neighbours(
    pieces: dict[int, UsageMetered],
) -> Iterable[tuple[UsageMetered, UsageMetered]]:
    return pairwise(pieces[seq] for seq in sorted(pieces))
