"""Files that are there wholly or not at all, also after a crash."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

# Not every file system knows how to force a directory to disk; those do it by themselves or never.
_CANNOT_SYNC_DIRECTORIES: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})
_MODE: Final = 0o644


def write_all(descriptor: int, data: memoryview) -> None:
    """Write every byte; the kernel may take fewer at a time."""
    while data:
        data = data[os.write(descriptor, data) :]


def sync_directory(directory: Path) -> None:
    """Force the names of a directory to disk, where the file system can."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_DIRECTORIES:
            raise
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Make a directory with all above it, and force their names to disk."""
    missing = []
    above = directory
    while not above.exists():
        missing.append(above)
        above = above.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def replace_file(path: Path, body: bytes) -> None:
    """Put a small file into place at once: a reader sees the old body or the new one.

    Raises
    ------
    OSError
        It could not be written or not be forced to disk; what was there before may still be.
    """
    # A name that nobody can have put something under, whoever else writes in the directory.
    beside = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        try:
            write_all(descriptor, memoryview(body))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def read_small_file(path: Path, bytes_max: int) -> bytes | None:
    """Return what a file holds, at most ``bytes_max + 1`` bytes; None where there is none.

    The other side may not be trusted: links are not followed, and what is no regular file is not
    waited for.

    Raises
    ------
    OSError
        It is there and cannot be read, or is no regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        body = b""
        while len(body) <= bytes_max:
            piece = os.read(descriptor, bytes_max + 1 - len(body))
            if not piece:
                break
            body += piece
        return body
    finally:
        os.close(descriptor)
