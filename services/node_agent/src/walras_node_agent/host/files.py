"""Small files that are there wholly or not at all, also after a crash."""

import errno
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CANNOT_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP})
PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
BYTES_MAX: Final = 65_536
_RESERVED_BYTES: Final = 256


def is_full(error: OSError) -> bool:
    """Whether a write failed because there is no room for it."""
    return error.errno in _NO_ROOM


def sync_directory(directory: Path) -> None:
    """Force the names of a directory to disk, where its file system can."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; the kernel may take fewer at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def replace_file(path: Path, body: bytes) -> None:
    """Put a file into place at once: a reader sees the old body or the new one.

    Raises
    ------
    OSError
        It could not be written, or not be forced to disk.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(beside, flags, PRIVATE_FILE)
        try:
            write_all(descriptor, body)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def create_file(path: Path, body: bytes) -> bool:
    """Make a file that must not be there yet; False where somebody was first."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, PRIVATE_FILE)
    except FileExistsError:
        return False
    try:
        write_all(descriptor, body)
    finally:
        os.close(descriptor)
    return True


def read_small_file(path: Path) -> bytes | None:
    """Return what a file holds; None where there is none that could be read.

    Whoever wrote it may not be trusted: links are not followed, what is no regular file is not
    waited for, and what is too long counts as not there.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        body = b""
        while piece := os.read(descriptor, BYTES_MAX + 1 - len(body)):
            body += piece
            if len(body) > BYTES_MAX:
                return None
        return body
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_document(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None where there is none."""
    body = read_small_file(path)
    if body is None:
        return None
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Put a JSON object into place at once."""
    replace_file(path, json.dumps(document, sort_keys=True).encode() + b"\n")


def _reserve_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.reserved")


def reserve_file(path: Path) -> None:
    """Take the room that a small document will need, which may come when the disk is full."""
    create_file(_reserve_of(path), b" " * _RESERVED_BYTES)


def fill_reserved(path: Path, document: dict[str, Any]) -> None:
    """Put a small JSON object into the place that was reserved for it."""
    body = json.dumps(document, sort_keys=True).encode().ljust(_RESERVED_BYTES)
    reserved = _reserve_of(path)
    descriptor = os.open(reserved, os.O_WRONLY | os.O_CLOEXEC)
    try:
        write_all(descriptor, body)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    reserved.replace(path)
    sync_directory(path.parent)
