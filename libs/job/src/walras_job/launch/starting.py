"""Starting processes that do not outlive the launcher."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PARENT_IS_GONE: Final = 113


@dataclass(frozen=True, slots=True)
class Inherited:
    """The signal settings that the launcher was started with: its children get the same."""

    blocked: frozenset[int]
    ignores_warning: bool


class Starter:
    """Starts processes in the launcher's own process group.

    On Linux the kernel sends them a signal when the launcher dies, however it dies. Two limits are
    the kernel's: what they start themselves gets none, nor does a set-user-ID program.
    """

    def __init__(self, inherited: Inherited) -> None:
        self._inherited = inherited
        # Looked up here: after a fork as little as possible is done.
        self._prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], on_death: signal.Signals
    ) -> "subprocess.Popen[bytes]":
        """Start a program with the launcher's own streams and descriptors.

        Parameters
        ----------
        command
            Program and arguments.
        environment
            All of its variables.
        on_death
            What it is sent when the launcher dies.

        Raises
        ------
        OSError
            It cannot be started.
        """
        launcher = os.getpid()

        def before_exec() -> None:
            self.die_with_parent(launcher, on_death)
            if self._inherited.ignores_warning:
                signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._inherited.blocked)

        return subprocess.Popen(
            command,
            env=dict(environment),
            close_fds=False,
            # The launcher has one thread, so nothing is locked in the child.
            preexec_fn=before_exec,  # noqa: PLW1509
        )

    def die_with_parent(self, parent: int, on_death: signal.Signals) -> None:
        """Ask the kernel, in a child, for a signal at the parent's death."""
        if self._prctl is not None:
            self._prctl(_PR_SET_PDEATHSIG, int(on_death), 0, 0, 0)
        # It may have died before it was asked.
        if os.getppid() != parent:
            os._exit(_PARENT_IS_GONE)
