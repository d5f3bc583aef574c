"""Judges of what ran: no job twice at a time, no part started twice."""

from collections.abc import Iterable

from tests.chaos_drains.history import History, Life


def running_twice(history: History) -> list[str]:
    """Return processes of one job on different leases that lived at the same time."""
    by_job: dict[tuple[str, str], list[Life]] = {}
    for life in history.lives:
        by_job.setdefault((life.team, life.job), []).append(life)
    return [fault for lives in by_job.values() for fault in _overlaps(lives)]


def _overlaps(lives: Iterable[Life]) -> list[str]:
    faults = []
    ordered = sorted(lives, key=lambda life: life.start_ms)
    for index, first in enumerate(ordered):
        for other in ordered[index + 1 :]:
            if other.lease != first.lease and other.start_ms <= first.last_ms:
                faults.append(
                    f"{first.job} ran twice for {first.last_ms - other.start_ms} ms: "
                    f"{first.lease} on {first.node}, {other.lease} on {other.node}"
                )
    return faults


def started_twice(history: History) -> list[str]:
    """Return parts of which more than one first process was started."""
    pids: dict[tuple[str, str], list[int]] = {}
    for life in history.lives:
        if life.is_first:
            pids.setdefault((life.lease, life.node), []).append(life.pid)
    return [
        f"{lease} on {node} was started {len(found)} times: processes {found}"
        for (lease, node), found in pids.items()
        if len(found) > 1
    ]
