"""A file that is being written, told from one whose writer died: its writer holds a lock on it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from walras_job.attempts import Listing, temporary_name
from walras_job.disk_faults import write_fault


@contextmanager
def temporary_file(directory: Path, attempt: int) -> Iterator[tuple[int, Path]]:
    """Open a new file of a name of its own; whatever happens, the name is gone at the end.

    Raises
    ------
    CheckpointWriteError
        It could not be made.
    """
    descriptor, path = _new_file(directory, attempt)
    try:
        yield descriptor, path
    finally:
        # After the rename there is no such name any more.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _new_file(directory: Path, attempt: int) -> tuple[int, Path]:
    while True:
        path = directory / temporary_name(attempt)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except OSError as error:
            raise write_fault(path, error) from error
        # A sweeper may have come between the two calls.
        if _lock(descriptor) and os.fstat(descriptor).st_nlink:
            return descriptor, path
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a file; False where a sweeper holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks. A sweeper gets the same answer, and removes nothing.
        return True
    return True


def sweep(directory: Path, listing: Listing, attempt: int) -> None:
    """Remove what dead writers left, and what writers of lower attempts write in vain."""
    for theirs, name in listing.temporaries:
        with suppress(OSError):
            if theirs < attempt:
                (directory / name).unlink(missing_ok=True)
            elif theirs == attempt:
                _remove_if_abandoned(directory / name)


def _remove_if_abandoned(path: Path) -> None:
    """Remove a file whose lock nobody holds; raise OSError where that cannot be told."""
    # For writing: some network file systems lock nothing else exclusively.
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Under the lock: a writer that has just made the file finds it gone and makes another.
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
