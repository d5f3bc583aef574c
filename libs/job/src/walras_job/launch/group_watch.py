"""Tells a signal to the whole process group from one to the launcher alone.

A signal to the group reaches the launched program by itself. Forwarded, it would come twice, and
many programs take a second one for "at once, without saving". The kernel does not say to whom a
signal was sent; so a process of the group that does nothing, with every signal blocked, is looked
at: if the signal is pending there too, the group got it.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from walras_job.launch.starting import Starter

# The kernel signals the members of a group one by one, within microseconds.
_MEMBERS_S: Final = 0.02
_PAUSE_S: Final = 0.001


class GroupWatch:
    """One dormant process of the group; none where the system has no /proc to look at it."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter
        self._pid: int | None = None
        self._watch()

    def reached_group(self, number: int) -> bool:
        """Whether a signal that the launcher just got went to the whole group."""
        deadline = time.monotonic() + _MEMBERS_S
        while self._pid is not None:
            if _is_pending(self._pid, number):
                # A new one, on which nothing is pending.
                self.close()
                self._watch()
                return True
            if time.monotonic() > deadline:
                break
            time.sleep(_PAUSE_S)
        return False

    def reaped(self, pid: int) -> None:
        """Take note that a child of the launcher has ended; if it is this one, forward always."""
        if pid == self._pid:
            self._pid = None

    def close(self) -> None:
        """End the dormant process."""
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._pid = None

    def _watch(self) -> None:
        if not Path("/proc/self/status").exists():
            return
        launcher = os.getpid()
        pid = os.fork()
        if pid:
            self._pid = pid
            return
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            self._starter.die_with_parent(launcher, signal.SIGKILL)
            # Whoever reads the launcher's output must not wait for this process too.
            os.closerange(0, os.sysconf("SC_OPEN_MAX"))
            while True:
                signal.pause()
        finally:
            os._exit(1)


def _is_pending(pid: int, number: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    except OSError:
        return False
    for line in status.splitlines():
        name, _, mask = line.partition(":")
        if name == "ShdPnd":
            return bool(int(mask, 16) >> (number - 1) & 1)
    return False
