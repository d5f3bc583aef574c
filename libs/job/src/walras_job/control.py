"""The control directory: the files by which the node agent and a part talk to each other."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from walras_job.durable import read_small_file, replace_file
from walras_job.errors import ControlWriteError, DocumentUnreadableError
from walras_job.protocol import (
    CANCEL_FILE,
    DOCUMENT_BYTES_MAX,
    DONE_FILE,
    PROGRESS_FILE,
    WARNING_FILE,
    DrainCancel,
    DrainDone,
    DrainProgress,
    DrainWarning,
)

Document = TypeVar("Document", DrainWarning, DrainCancel, DrainDone, DrainProgress)


class ControlDirectory:
    """Both sides of the directory; every file is replaced at once or not at all.

    A read returns None where there is no such file, and raises DocumentUnreadableError where there
    is one that says nothing. A write raises ControlWriteError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read_warning(self) -> DrainWarning | None:
        """Return the agent's newest warning."""
        return self._read(WARNING_FILE, DrainWarning.decode)

    def read_cancel(self) -> DrainCancel | None:
        """Return the agent's newest cancel."""
        return self._read(CANCEL_FILE, DrainCancel.decode)

    def read_done(self) -> DrainDone | None:
        """Return the job's newest done."""
        return self._read(DONE_FILE, DrainDone.decode)

    def read_progress(self) -> DrainProgress | None:
        """Return the job's newest progress."""
        return self._read(PROGRESS_FILE, DrainProgress.decode)

    def write_warning(self, warning: DrainWarning) -> None:
        """Warn; by the agent."""
        self._write(WARNING_FILE, warning.encode())

    def write_cancel(self, cancel: DrainCancel) -> None:
        """Call the drain off; by the agent."""
        self._write(CANCEL_FILE, cancel.encode())

    def write_done(self, done: DrainDone) -> None:
        """Say that everything is saved; by the job."""
        self._write(DONE_FILE, done.encode())

    def write_progress(self, progress: DrainProgress) -> None:
        """Say what is waited for; by the job."""
        self._write(PROGRESS_FILE, progress.encode())

    def _read(self, name: str, decode: Callable[[bytes], Document]) -> Document | None:
        path = self.path / name
        try:
            body = read_small_file(path, DOCUMENT_BYTES_MAX)
            return None if body is None else decode(body)
        except OSError as error:
            raise DocumentUnreadableError(f"{path}: {error.strerror}") from error
        except DocumentUnreadableError as error:
            raise DocumentUnreadableError(f"{path}: {error}") from error

    def _write(self, name: str, body: bytes) -> None:
        path = self.path / name
        try:
            replace_file(path, body)
        except OSError as error:
            raise ControlWriteError(
                f"{path} could not be written: {error.strerror}; look at the room, the rights and "
                "the mount of that directory"
            ) from error
