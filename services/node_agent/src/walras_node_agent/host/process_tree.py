"""All that a process has started: found by its parents, ended together.

Whatever a keeper's job does (forks, sessions of their own, forks that let their parent die), its
processes stay below the keeper, because that takes orphans as a subreaper.
"""

import os
import signal
from collections.abc import Iterable, Mapping

from walras_node_agent.host.machine import parents


def below(root: int, parent_of: Mapping[int, int] | None = None) -> list[int]:
    """Return the living processes below one, nearest first, then by pid."""
    parent_of = parents() if parent_of is None else parent_of
    children: dict[int, list[int]] = {}
    for pid, parent in sorted(parent_of.items()):
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    level = children.get(root, [])
    while level:
        found += level
        level = [child for pid in level for child in children.get(pid, [])]
    return found


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes; those that are gone are passed over.

    Each is held by a descriptor first, so that a pid that has changed hands in between is noticed.
    """
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            signal.pidfd_send_signal(descriptor, number)
        except OSError:
            continue
        finally:
            os.close(descriptor)


def terminate_below(root: int) -> None:
    """Send SIGTERM to all below a process; what was stopped is woken up for it."""
    found = below(root)
    send(found, signal.SIGTERM)
    send(found, signal.SIGCONT)


def kill_below(root: int) -> None:
    """Send SIGKILL to all below a process, after all of it stands still: what forks is caught."""
    seen: set[int] = set()
    while not (found := set(below(root))) <= seen:
        send(sorted(found - seen), signal.SIGSTOP)
        seen |= found
    send(sorted(seen), signal.SIGKILL)
