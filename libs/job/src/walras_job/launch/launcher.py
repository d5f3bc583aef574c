"""The launcher's loop: one process, one thread, all signals taken at one place."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Final

from walras_job.drain_watch import LOOK_EVERY_NS, DrainWatch, SignalCount
from walras_job.errors import JobError
from walras_job.launch.group_watch import GroupWatch
from walras_job.launch.saving import Saving
from walras_job.launch.starting import Inherited, Starter
from walras_job.launch.warning_command import printable
from walras_job.part import control_directory_of

FORWARDED: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_TAKEN: Final = FORWARDED | {signal.SIGUSR1, signal.SIGCHLD}
_LOOK_EVERY_S: Final = LOOK_EVERY_NS / 1_000_000_000
_SIGNAL_CODES: Final = 128
"""A program that a signal ended gives 128 + its number, as in a shell."""


def take_signals() -> Inherited:
    """Take the launcher's signals for good: they are blocked and waited for, none runs a handler.

    Not even at the end are they given back: one that comes then must not change the exit code.

    Returns
    -------
    Inherited
        What was in force before, for the processes that the launcher starts.
    """
    # That it is caught is what the agent looks for before it sends.
    warned = signal.signal(signal.SIGUSR1, _never_called)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TAKEN)
    # Inherited as ignored, it would make the kernel reap the children unseen.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return Inherited(frozenset(map(int, before)), ignores_warning=warned is signal.SIG_IGN)


def _never_called(number: int, frame: FrameType | None) -> None:
    del number, frame


class Launcher:
    """Runs one program to its end; warns it in its own way, and tells the agent when all is saved.

    Create it after :func:`take_signals`.
    """

    def __init__(self, saving: Saving, starter: Starter, environment: Mapping[str, str]) -> None:
        self._saving = saving
        self._starter = starter
        self._environment = environment
        self._watch = DrainWatch(control_directory_of(environment), SignalCount())
        self._begun: str | None = None
        self._said: set[str] = set()

    def run(self, command: Sequence[str]) -> int:
        """Run the program; return its exit code, or 128 + n where signal n ended it.

        Raises
        ------
        OSError
            It cannot be started.
        """
        group = GroupWatch(self._starter)
        try:
            program = self._starter.start(command, self._environment, signal.SIGTERM)
            while True:
                self._take_signal(program, group)
                ended = program.poll() is not None
                self._follow_drain(None if ended else program.pid)
                if ended and self._saving.process_id() is None:
                    return _exit_code(program.returncode)
                self._reap_strangers(program.pid, group)
        finally:
            group.close()

    def _take_signal(self, program: "subprocess.Popen[bytes]", group: GroupWatch) -> None:
        """Wait for a signal, or until it is time to look at the files."""
        taken = signal.sigtimedwait(_TAKEN, _LOOK_EVERY_S)
        if taken is None or taken.si_signo not in FORWARDED:
            # A child that ended or a warning: what comes next looks at both.
            return
        if not group.reached_group(taken.si_signo):
            working = self._saving.process_id()
            if program.poll() is None:
                program.send_signal(taken.si_signo)
            elif working is not None:
                os.kill(working, taken.si_signo)

    def _follow_drain(self, program: int | None) -> None:
        """See to it that a warning is followed; ``program`` is None when that has ended."""
        # Looked at in any case: the deadline of a warning command holds after a cancel too.
        saved = self._begun is not None and self._saving.saved()
        # After that: a cancel or another warning that came while it saved is seen before it is
        # answered.
        self._watch.look()
        standing = self._watch.standing()
        if standing is None or not self._watch.unanswered:
            return
        if self._begun != standing.session:
            if self._saving.process_id() is not None:
                # One command at a time, also where the one that runs was begun for nothing.
                self._watch.tell("the warning command of an earlier warning to end")
                return
            left_s = self._watch.seconds_left()
            self._say(f"asked to leave within {left_s:.0f} s: {printable(standing.reason)}")
            self._begun = standing.session
            self._saving.begin(standing, left_s, program)
            saved = self._saving.saved()
        if self._watch.hear_done():
            # The program spoke for itself, and knows more.
            return
        if saved:
            self._say_done()
        else:
            self._watch.tell(self._saving.waits_for())
            self._say(f"waiting for {self._saving.waits_for()}")

    def _say_done(self) -> None:
        try:
            self._watch.answer(None, self._saving.checkpoint())
        except JobError as error:
            # Tried again at the next look.
            self._say(str(error))
        else:
            self._say("everything is saved")

    def _reap_strangers(self, program: int, group: GroupWatch) -> None:
        """Reap children that nobody here asks for: as process 1 the launcher gets orphans."""
        with suppress(ChildProcessError):
            while True:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if found is None or found.si_pid in {program, self._saving.process_id()}:
                    return
                os.waitpid(found.si_pid, 0)
                group.reaped(found.si_pid)

    def _say(self, text: str) -> None:
        if text in self._said:
            return
        self._said.add(text)
        # The program must not end because nobody listens to its launcher.
        with suppress(OSError, AttributeError):
            sys.stderr.write(f"walras run: {text}\n")


def _exit_code(code: int) -> int:
    return code if code >= 0 else _SIGNAL_CODES - code
