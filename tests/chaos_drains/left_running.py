"""What agents of a run started and left running when they died: jobs, and their keepers."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from walras_node_agent.host.machine import PROC, parents


def left_running(folder: Path) -> list[int]:
    """Return the processes that agents started, by the run's folder that they were told of."""
    # With the stroke: another run's folder may begin with the name of this one.
    mark = f"{folder.resolve()}/".encode()
    return [pid for pid in sorted(parents()) if pid != os.getpid() and _names(pid, mark)]


def end_all(folder: Path) -> None:
    """Kill them all, and what they started before they were killed."""
    killed = set[int]()
    while found := set(left_running(folder)) - killed:
        for pid in sorted(found):
            with suppress(ProcessLookupError):  # it has ended by itself since
                os.kill(pid, signal.SIGKILL)
        killed |= found


def _names(pid: int, mark: bytes) -> bool:
    """Whether a process is a keeper of the folder, or was started with a part's directory in it."""
    try:
        command = PROC.joinpath(str(pid), "cmdline").read_bytes()
        environment = PROC.joinpath(str(pid), "environ").read_bytes()
    except OSError:
        return False
    is_keeper = b"walras_node_agent.host.keeper" in command and mark in command
    return is_keeper or any(
        word.startswith(b"WALRAS_CONTROL_DIR=" + mark) for word in environment.split(b"\0")
    )
