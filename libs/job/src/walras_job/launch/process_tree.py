"""Ending a process together with all that it has started."""

import os
import signal
from contextlib import suppress
from pathlib import Path


def kill_tree(root: int) -> None:
    """Kill a child and its descendants; those that left their parents behind are not found.

    Each is stopped before its children are listed: a stopped parent starts and reaps nothing, so
    no process id can come to mean another process meanwhile.
    """
    stopped: list[int] = []
    found = [root]
    while found:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP)
        stopped += found
        found = [pid for pid in _children(frozenset(stopped)) if pid not in stopped]
    for pid in stopped:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _children(parents: frozenset[int]) -> list[int]:
    """Return the processes whose parent is one of these, in order; none without /proc."""
    children = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            # The name, in brackets, may hold anything.
            fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(fields[1]) in parents:
                children.append(int(folder.name))
    return sorted(children)
