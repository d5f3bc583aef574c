"""Judges of drains: every session ends, in time; what is freed is freed once."""

from collections import Counter
from typing import Final

from tests.chaos_drains.history import Entry, History
from tests.chaos_drains.leases import Part
from tests.chaos_drains.terms import ENDED
from walras_contracts.drains import DrainSessionChanged, SessionState
from walras_contracts.work import LeaseGranted, LeaseState, LeaseStatusChanged

GRACE_MS: Final = 5_000
"""A session ends by its deadline and so much."""


def sessions(history: History) -> dict[str, list[tuple[Entry, DrainSessionChanged]]]:
    """Return the records of each session."""
    found: dict[str, list[tuple[Entry, DrainSessionChanged]]] = {}
    for entry, event in history.of(DrainSessionChanged):
        found.setdefault(event.session, []).append((entry, event))
    return found


def first_freed(history: History) -> dict[Part, tuple[Entry, LeaseStatusChanged]]:
    """Return the record by which each part was freed, the first one where there are more."""
    found: dict[Part, tuple[Entry, LeaseStatusChanged]] = {}
    for entry, status in history.of(LeaseStatusChanged):
        if status.state is LeaseState.FREED:
            found.setdefault((status.lease, status.node), (entry, status))
    return found


def begun(history: History) -> int:
    """Return how many drains were begun."""
    return sum(
        any(event.commanded_ms is not None for _, event in records)
        for records in sessions(history).values()
    )


def ends(history: History) -> Counter[str]:
    """Return how drains ended, in words."""
    found: Counter[str] = Counter()
    for records in sessions(history).values():
        last = records[-1][1]
        found[f"{last.state.value} {last.outcome}".strip()] += 1
    return found


def endless(history: History) -> list[str]:
    """Return sessions that do not end, end late, or go on when they have ended."""
    faults = []
    for name, records in sessions(history).items():
        states = [event.state for _, event in records]
        last = records[-1][1]
        over = [state in ENDED for state in states]
        if last.state not in ENDED:
            faults.append(f"session {name} of {last.lease} is still {last.state.value}")
            continue
        first = records[over.index(True)][1]
        if len(set(states[over.index(True) :])) > 1:
            faults.append(f"session {name} of {last.lease} went on when it had ended: {states}")
        if first.deadline_ms is not None and first.changed_ms > first.deadline_ms + GRACE_MS:
            late_ms = first.changed_ms - first.deadline_ms
            faults.append(f"session {name} of {last.lease} ended {late_ms} ms behind its deadline")
    return faults


def freed_wrong(history: History) -> list[str]:
    """Return parts that were freed twice, or did something when they were freed."""
    faults = []
    freed: dict[Part, str] = {}
    for entry, status in history.of(LeaseStatusChanged):
        part = status.lease, status.node
        if part not in freed:
            if status.state is LeaseState.FREED:
                freed[part] = entry.event_id
        elif entry.event_id != freed[part]:
            what = f"{status.state.value} (event {entry.event_id})"
            faults.append(f"{part} was freed (event {freed[part]}), then {what}")
    return faults


def never_freed(history: History) -> list[str]:
    """Return parts that were granted and never freed."""
    freed = first_freed(history)
    granted = {(grant.lease, grant.node): None for _, grant in history.of(LeaseGranted)}
    return [f"{part} was granted and never freed" for part in granted if part not in freed]


def freed_too_soon(history: History) -> list[str]:
    """Return sessions that were told to be freed before each of their parts was."""
    at = {part: entry.step for part, (entry, _) in first_freed(history).items()}
    faults = []
    for name, records in sessions(history).items():
        for entry, event in records:
            if event.state is not SessionState.FREED:
                continue
            behind = entry.step + 1
            early = [n for n in event.nodes if at.get((event.lease, n), behind) >= behind]
            faults += [
                f"session {name}: {event.lease} was told freed, {node} had not" for node in early
            ]
    return faults


def alive_when_freed(history: History) -> list[str]:
    """Return processes that lived on when their part was told to be free."""
    at = {part: status.at_ms for part, (_, status) in first_freed(history).items()}
    return [
        f"{life.lease} on {life.node}: process {life.pid} lived "
        f"{life.last_ms - at[life.lease, life.node]} ms after it was freed"
        for life in history.lives
        if life.last_ms > at.get((life.lease, life.node), life.last_ms)
    ]
