"""What a process knows of its drain: the files of the control directory, looked at now and then."""

import logging
import math
import time
from pathlib import Path
from typing import Final

from walras_job.control import ControlDirectory
from walras_job.errors import DocumentUnreadableError, JobError
from walras_job.protocol import (
    TEXT_CHARACTERS_MAX,
    DrainCancel,
    DrainDone,
    DrainProgress,
    DrainWarning,
)

LOOK_EVERY_NS: Final = 100_000_000
"""How often the files are looked at, at most; a signal asks for a look at once."""
_NEVER_NS: Final = 2**63 - 1

_log = logging.getLogger("walras_job")


class SignalCount:
    """How many SIGUSR1 this process got; the handler counts, and does nothing else."""

    __slots__ = ("received",)

    def __init__(self) -> None:
        self.received = 0


class DrainWatch:
    """The drain of one control directory. The files decide; a signal only makes it look sooner.

    No method but ``done`` raises for what the files hold: a loop that trains must not end because
    of a file that somebody else wrote. What cannot be read is logged once and changes nothing.
    """

    def __init__(self, directory: Path | None, signals: SignalCount) -> None:
        self.directory = None if directory is None else ControlDirectory(directory)
        self.signals = signals
        self.seen_signals = signals.received
        self.next_look_ns = _NEVER_NS if directory is None else 0
        self.warning: DrainWarning | None = None
        self.cancelled = False
        self.answered: str | None = None
        self.unanswered = False
        self._deadline_s = math.inf
        self._told: DrainProgress | None = None
        self._complained: set[str] = set()

    def look_if_due(self) -> None:
        """Look, if a signal came or the last look is too long ago."""
        if self.signals.received != self.seen_signals or time.monotonic_ns() >= self.next_look_ns:
            self.look()

    def look(self) -> None:
        """Read the files of the agent now."""
        if self.directory is None:
            self.seen_signals = self.signals.received
            return
        # Both before reading: a signal that comes meanwhile makes another look.
        self.seen_signals = self.signals.received
        self.next_look_ns = time.monotonic_ns() + LOOK_EVERY_NS
        warning = self._read_warning()
        if warning is not None and warning != self.warning:
            self._deadline_s = _deadline_s(warning)
            self.warning = warning
        cancel = self._read_cancel()
        standing = self.warning
        self.cancelled = (
            standing is not None and cancel is not None and cancel.session == standing.session
        )
        self._judge()

    def standing(self) -> DrainWarning | None:
        """Return the warning that stands as of the last look: not called off, answered or not."""
        return None if self.cancelled else self.warning

    def seconds_left(self) -> float:
        """Return the time to the deadline; never negative, infinity where no warning stands.

        Once seen, a deadline is kept on the clock that does not jump.
        """
        if self.standing() is None:
            return math.inf
        return max(0.0, self._deadline_s - time.monotonic())

    def answer(self, step: int | None, checkpoint: str | None) -> bool:
        """Write done for the warning that stands; False where none does.

        Raises
        ------
        ControlWriteError
            It could not be written: the agent does not know, and will wait.
        """
        if self.warning is None:
            self.look()
        standing = self.standing()
        if standing is None or self.directory is None:
            return False
        self.directory.write_done(DrainDone(standing.session, step, checkpoint))
        self.answered = standing.session
        self._judge()
        return True

    def hear_done(self) -> bool:
        """Whether another process of this part has answered the warning that stands."""
        standing = self.standing()
        if standing is None or self.directory is None:
            return False
        try:
            done = self.directory.read_done()
        except DocumentUnreadableError as error:
            self._complain(str(error))
            return False
        if done is None or done.session != standing.session:
            return False
        self.answered = standing.session
        self._judge()
        return True

    def tell(self, text: str) -> None:
        """Write what is waited for, if that is news and a warning stands."""
        standing = self.standing()
        if standing is None or self.directory is None:
            return
        progress = DrainProgress(standing.session, text[:TEXT_CHARACTERS_MAX])
        if progress == self._told:
            return
        self._told = progress
        try:
            self.directory.write_progress(progress)
        except JobError as error:
            self._complain(str(error))

    def _judge(self) -> None:
        standing = self.standing()
        self.unanswered = standing is not None and standing.session != self.answered

    def _read_warning(self) -> DrainWarning | None:
        try:
            return None if self.directory is None else self.directory.read_warning()
        except DocumentUnreadableError as error:
            self._complain(str(error))
            return None

    def _read_cancel(self) -> DrainCancel | None:
        try:
            return None if self.directory is None else self.directory.read_cancel()
        except DocumentUnreadableError as error:
            self._complain(str(error))
            return None

    def _complain(self, what: str) -> None:
        if what not in self._complained:
            self._complained.add(what)
            _log.warning("%s", what)


def _deadline_s(warning: DrainWarning) -> float:
    """Return the deadline on the monotonic clock, for a warning that is seen now.

    A wall clock that was set back since the warning must not make the time longer than it was.
    """
    wall_ms = time.time_ns() // 1_000_000
    left_ms = min(warning.deadline_ms - wall_ms, warning.deadline_ms - warning.warned_ms)
    return time.monotonic() + left_ms / 1_000
