"""One agent per node: whoever holds the lock of its directory works."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from walras_node_agent.host.files import PRIVATE_FILE
from walras_runtime.settings import SettingsError

LOCK: Final = "lock"


@contextmanager
def only_agent(directory: Path, node: str) -> Iterator[None]:
    """Hold the node's lock; it ends with this process, whatever ends that.

    The lock is the process's own (POSIX): what it forks to start a keeper does not hold it, and may
    outlive it. Nothing else here may open the file, because closing it would end the lock.

    Raises
    ------
    SettingsError
        Another agent holds it, or the directory is another node's.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(directory.joinpath(LOCK), flags, PRIVATE_FILE)
    try:
        known, _, pid = os.pread(descriptor, 200, 0).decode("utf-8", "replace").partition(" ")
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"WALRAS_NODE_AGENT_STATE_DIRECTORY: an agent of node {known} (process "
                f"{pid.strip()}) works in {directory}; end it first, or give this one another node "
                "and directory"
            ) from None
        if known not in {"", node}:
            raise SettingsError(
                f"WALRAS_NODE_AGENT_NODE: {directory} belongs to node {known}, not {node}; each "
                "node needs a directory of its own"
            )
        # In place: there may be no room for anything else.
        body = f"{node} {os.getpid()}\n".encode()
        os.pwrite(descriptor, body, 0)
        os.ftruncate(descriptor, len(body))
        yield
    finally:
        os.close(descriptor)
