"""Whether another file stands where a checkpoint stood."""

import errno
import fcntl
import os
import signal
import stat
from pathlib import Path

from walras_job.durable import sync_directory


class ReplacedFile:
    """A path, and the file that was there when this was made.

    That file is kept open, so its number cannot be given to another one. What is rewritten in
    place stays the same file, and never counts: nobody can tell when it is whole.
    """

    def __init__(self, path: Path) -> None:
        """Look at the path.

        Raises
        ------
        OSError
            There is something that cannot be opened.
        """
        self.path = path
        self._before = _opened(path)

    def replaced(self) -> bool:
        """Whether another file is there, not empty, that nobody writes; it is on disk then.

        Raises
        ------
        OSError
            It cannot be opened or not be forced to disk.
        """
        now = _opened(self.path)
        if now is None:
            return False
        try:
            if self._before is not None and os.path.sameopenfile(self._before, now):
                return False
            state = os.fstat(now)
            if stat.S_ISREG(state.st_mode) and (state.st_size == 0 or _is_being_written(now)):
                return False
            os.fsync(now)
            sync_directory(self.path.parent)
            return True
        finally:
            os.close(now)

    def close(self) -> None:
        """Let go of the file of before."""
        if self._before is not None:
            os.close(self._before)
            self._before = None


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None


def _is_being_written(descriptor: int) -> bool:
    """Whether somebody has a file open for writing: no read lease is granted on it then.

    A file that a script makes at its final place is half written for a while. Where the file
    system knows no leases it cannot be told, and the file counts.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        # Of a writer that comes now the kernel tells by a signal; one that is ignored by default.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False
