"""A command of the user's that saves, or asks the program to."""

import signal
import subprocess
import time
from collections.abc import Mapping

from walras_job.launch.process_tree import kill_tree
from walras_job.launch.saving import CheckpointFile
from walras_job.launch.starting import Starter
from walras_job.protocol import (
    CHILD_VARIABLE,
    DEADLINE_VARIABLE,
    REASON_VARIABLE,
    SESSION_VARIABLE,
    DrainWarning,
)


class WarningCommand:
    """A shell runs the command; it is killed at the deadline, with all that it has started.

    It ran well when it ended with 0. With a checkpoint file everything is saved when the file was
    replaced as well.
    """

    def __init__(
        self,
        command: str,
        starter: Starter,
        environment: Mapping[str, str],
        file: CheckpointFile | None,
    ) -> None:
        self._command = command
        self._starter = starter
        self._environment = environment
        self._file = file
        self._process: subprocess.Popen[bytes] | None = None
        self._deadline_s = 0.0
        self._ended_well = False
        self._missing = ""

    def begin(self, warning: DrainWarning, left_s: float, program: int | None) -> None:
        """Run the command, with session, reason, deadline and the program in its environment."""
        self._ended_well = False
        if self._file is not None:
            self._file.begin(warning, left_s, program)
        if program is None or left_s <= 0:
            what = "the program" if program is None else "the time"
            self._missing = f"the deadline: {what} was over before the warning command could run"
            return
        self._deadline_s = time.monotonic() + left_s
        self._missing = "the warning command to end"
        environment = {
            **self._environment,
            SESSION_VARIABLE: printable(warning.session),
            REASON_VARIABLE: printable(warning.reason),
            DEADLINE_VARIABLE: str(warning.deadline_ms),
            CHILD_VARIABLE: str(program),
        }
        try:
            self._process = self._starter.start(
                ["/bin/sh", "-c", self._command], environment, signal.SIGKILL
            )
        except OSError as error:
            self._missing = f"the deadline: the warning command cannot run ({error.strerror})"

    def saved(self) -> bool:
        """Look after the command; whether it ended well and the file, if any, was replaced."""
        self._look()
        return self._ended_well and (self._file is None or self._file.saved())

    def process_id(self) -> int | None:
        """Return the shell that runs the command; None where none runs."""
        return None if self._process is None else self._process.pid

    def waits_for(self) -> str:
        """Say what the command has come to."""
        return self._file.waits_for() if self._ended_well and self._file else self._missing

    def checkpoint(self) -> str | None:
        """Return the path of the checkpoint file, if one was named."""
        return None if self._file is None else self._file.checkpoint()

    def _look(self) -> None:
        if self._process is None:
            return
        code = self._process.poll()
        if code is None:
            if time.monotonic() < self._deadline_s:
                return
            kill_tree(self._process.pid)
            self._process.wait()
            self._missing = "the deadline: the warning command was killed at it"
        elif code == 0:
            self._ended_well = True
        else:
            how = f"with code {code}" if code > 0 else f"by signal {-code}"
            self._missing = f"the deadline: the warning command ended {how}"
        self._process = None


def printable(text: str) -> str:
    """Return a text that an environment can hold, and a terminal show as it is."""
    return "".join(c if c.isprintable() else " " for c in text)
