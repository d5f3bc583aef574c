"""``drainable()``: a job asks at its own pace whether it has to leave, and says when it can."""

import operator
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic_ns
from types import FrameType
from typing import Any, SupportsIndex

from walras_job.drain_watch import DrainWatch, SignalCount
from walras_job.errors import ControlDirectoryMissingError, ForkedDrainError
from walras_job.part import control_directory_of


class Drain:
    """The drain of this process, as its control directory tells it.

    Everything but ``done`` and ``waiting_for`` may be asked from any thread, in a forked child too,
    and as often as one likes. Outside Walras it is never requested, and both do nothing.
    """

    def __init__(self, watch: DrainWatch) -> None:
        self._watch = watch
        self._owner = os.getpid()

    @property
    def requested(self) -> bool:
        """Whether a warning stands that this process has not answered with ``done`` yet."""
        watch = self._watch
        # As look_if_due(), written out: this is asked at every step of a training loop.
        if watch.signals.received != watch.seen_signals or monotonic_ns() >= watch.next_look_ns:
            watch.look()
        return watch.unanswered

    @property
    def cancelled(self) -> bool:
        """Whether the newest warning was called off: work goes on, until another one comes."""
        self._watch.look_if_due()
        return self._watch.cancelled

    @property
    def reason(self) -> str | None:
        """Why the job has to leave; None where no warning stands."""
        self._watch.look_if_due()
        standing = self._watch.standing()
        return None if standing is None else standing.reason

    @property
    def deadline_ms(self) -> int | None:
        """When SIGTERM comes, ms since the epoch (UTC); None where no warning stands."""
        self._watch.look_if_due()
        standing = self._watch.standing()
        return None if standing is None else standing.deadline_ms

    def seconds_left(self) -> float:
        """Return the seconds to the deadline, at least 0; infinity where no warning stands."""
        self._watch.look_if_due()
        return self._watch.seconds_left()

    def done(
        self, step: SupportsIndex | None = None, checkpoint: str | os.PathLike[str] | None = None
    ) -> bool:
        """Say that everything is saved; from then on the process may be ended at any time.

        It answers the warning that ``requested`` showed last; one that came since is requested
        again. Where several processes make up a part, one of them says it when all have saved.

        Parameters
        ----------
        step
            The last step that is saved, from 0.
        checkpoint
            Where.

        Returns
        -------
        bool
            False where no warning stands: then nothing was said.

        Raises
        ------
        ControlWriteError
            It could not be said. Do not end with exit code 0 then: that would mean finished.
        ForkedDrainError
            This process was forked off the one that opened the drain.
        """
        self._only_the_owner("done")
        number = None if step is None else operator.index(step)
        if number is not None and number < 0:
            raise ValueError(f"step is {number}; steps count from 0")
        return self._watch.answer(number, None if checkpoint is None else os.fspath(checkpoint))

    def waiting_for(self, text: str) -> None:
        """Tell the agent what is waited for; cheap where it is what was told last.

        A text that cannot be written is logged, and nothing else happens.

        Raises
        ------
        ForkedDrainError
            This process was forked off the one that opened the drain.
        """
        self._only_the_owner("waiting_for")
        self._watch.look_if_due()
        self._watch.tell(text)

    def _only_the_owner(self, what: str) -> None:
        if os.getpid() != self._owner:
            raise ForkedDrainError(
                f"{what}() in process {os.getpid()}, forked off process {self._owner} that opened "
                "the drain: what one child saved is not everything. Let the parent say it, or open "
                "a drainable() in this process"
            )


@contextmanager
def drainable(control_directory: Path | None = None) -> Iterator[Drain]:
    """Open the drain of this process; SIGUSR1 does not end it while it is open.

    In the main thread SIGUSR1 sets a flag, and at the last exit the handler from before is back.
    In another thread, and where somebody else takes SIGUSR1, the warning file is enough. Nested
    ones are one: what one answers is answered. A warning that came before is seen.

    Parameters
    ----------
    control_directory
        Left out: that of the environment. Without one, a drain that is never requested.

    Raises
    ------
    ControlDirectoryMissingError
        It is named and not there: no warning could ever be seen.
    """
    directory = control_directory or control_directory_of(os.environ)
    if directory is None:
        yield Drain(DrainWatch(None, SignalCount()))
        return
    if not directory.is_dir():
        raise ControlDirectoryMissingError(
            f"the control directory {directory} is not there: mount it into the job's container, "
            "or unset WALRAS_CONTROL_DIR to run outside Walras"
        )
    # As it is named, not resolved: it may be a link that the agent moves.
    opened = _Opened(directory.absolute())
    try:
        yield Drain(opened.watch)
    finally:
        opened.close()


class _OpenDrains:
    """What is open in this process: one watch per directory, one handler for all."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.signals = SignalCount()
        self.watches: dict[Path, tuple[DrainWatch, int]] = {}
        self.in_main_thread = 0
        self.installed = False
        self.previous: Any = None

    def after_fork_in_child(self) -> None:
        """Forget the parent's drains; its handler is inherited, and put back by our last exit."""
        self.lock = threading.Lock()
        self.watches = {}
        self.in_main_thread = 0

    def take(self, directory: Path) -> DrainWatch:
        with self.lock:
            watch, users = self.watches.get(directory, (None, 0))
            if watch is None:
                watch = DrainWatch(directory, self.signals)
            self.watches[directory] = watch, users + 1
            return watch

    def give_back(self, directory: Path) -> None:
        with self.lock:
            watch, users = self.watches[directory]
            if users > 1:
                self.watches[directory] = watch, users - 1
            else:
                del self.watches[directory]

    def enter_main_thread(self) -> None:
        """Count SIGUSR1 from here on. Only the main thread gets here, so no lock is needed."""
        self.in_main_thread += 1
        if self.installed or not hasattr(signal, "SIGUSR1"):
            return
        previous = signal.getsignal(signal.SIGUSR1)
        # None: set by code that is not Python's. It could not be put back, so it stays.
        if previous is None:
            return
        signal.signal(signal.SIGUSR1, _count_signal)
        # System calls of libraries go on after the signal instead of failing with EINTR.
        signal.siginterrupt(signal.SIGUSR1, False)
        self.previous = previous
        self.installed = True

    def leave_main_thread(self) -> None:
        self.in_main_thread -= 1
        if self.in_main_thread > 0 or not self.installed:
            return
        self.installed = False
        # Whoever has put a handler of its own over ours in the meantime keeps it.
        if signal.getsignal(signal.SIGUSR1) is _count_signal:
            signal.signal(signal.SIGUSR1, self.previous)


_open = _OpenDrains()
os.register_at_fork(after_in_child=_open.after_fork_in_child)


def _count_signal(number: int, frame: FrameType | None) -> None:
    del number, frame
    _open.signals.received += 1


class _Opened:
    """One ``with drainable()``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._owner = os.getpid()
        self._main = threading.current_thread() is threading.main_thread()
        self.watch = _open.take(directory)
        if self._main:
            _open.enter_main_thread()

    def close(self) -> None:
        # A forked child that leaves its parent's block has nothing open.
        if os.getpid() != self._owner:
            return
        _open.give_back(self._directory)
        # A block that is left in another thread than it was entered in: the handler stays, and
        # does no harm.
        if self._main and threading.current_thread() is threading.main_thread():
            _open.leave_main_thread()
