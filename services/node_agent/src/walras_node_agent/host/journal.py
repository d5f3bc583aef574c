"""The agent's journal: what it decided, forced to disk before anything of it is done.

One entry a line: the checksum of the JSON behind it, then the JSON. A tail that was torn by a crash
is cut off; damage before the tail is not passed over. Where the disk is full, a file that was kept
for that is given up, so that what ends can still be written; then entries are refused.
"""

import json
import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from walras_node_agent.host.files import PRIVATE_FILE, is_full, sync_directory, write_all
from walras_runtime.errors import WalrasError

JOURNAL: Final = "journal"
BALLAST: Final = "ballast"
BALLAST_BYTES: Final = 1 << 20
CHECKSUM_DIGITS: Final = 8

Entry = dict[str, Any]


class JournalDamagedError(WalrasError):
    """An entry before the last one cannot be read."""

    code = "journal_damaged"


class JournalFullError(WalrasError):
    """There is no room for an entry; nothing of it was written."""

    code = "disk_full"
    retriable = True


def encode(entry: Entry) -> bytes:
    """Return an entry as a line."""
    body = json.dumps(entry, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode(line: bytes) -> Entry | None:
    """Return the entry on a line; None where the line is not whole."""
    checksum, _, body = line.partition(b" ")
    if len(checksum) != CHECKSUM_DIGITS or not line.endswith(b"\n"):
        return None
    body = body[:-1]
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    entry: Entry = json.loads(body)
    return entry


class Journal:
    """An append-only file of entries.

    Parameters
    ----------
    directory
        Where it lies.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory.joinpath(JOURNAL)
        self._ballast = directory.joinpath(BALLAST)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, PRIVATE_FILE)
        self.size = os.fstat(self._descriptor).st_size
        self.full = False
        """Whether the last entry found no room, or only that of the ballast."""
        sync_directory(directory)
        self._keep_ballast()

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def read(self) -> list[Entry]:
        """Return all entries, and cut a torn tail off.

        Raises
        ------
        JournalDamagedError
            What cannot be read is not the tail.
        """
        entries: list[Entry] = []
        whole = 0
        lines = self._path.read_bytes().splitlines(keepends=True)
        for number, line in enumerate(lines):
            entry = decode(line)
            if entry is None:
                if number < len(lines) - 1:
                    raise JournalDamagedError(
                        f"{self._path}: entry {number + 1} of {len(lines)} is damaged, which no "
                        "crash does; look at the disk, then move the file away: the agent starts "
                        "as after the loss of its directory"
                    )
                os.ftruncate(self._descriptor, whole)
                break
            entries.append(entry)
            whole += len(line)
        self.size = whole
        return entries

    def append(self, entries: Iterable[Entry]) -> None:
        """Write entries and force them to disk: all of them, or none.

        Raises
        ------
        JournalFullError
            There is no room.
        """
        data = b"".join(map(encode, entries))
        try:
            self._write(data)
        except OSError as error:
            if not is_full(error):
                raise
            self.full = True
            self._give_up_ballast()
            try:
                self._write(data)
            except OSError as again:
                if not is_full(again):
                    raise
                raise JournalFullError(
                    f"{self._path}: no room for {len(data)} bytes; make room on that disk"
                ) from again
        if self.full:
            self._keep_ballast()

    def _write(self, data: bytes) -> None:
        try:
            write_all(self._descriptor, data)
            os.fsync(self._descriptor)
        except OSError as error:
            if is_full(error):
                os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(data)

    def replace(self, entries: Iterable[Entry]) -> None:
        """Put a shorter journal into the place of this one, at once; without room, do nothing."""
        beside = self._path.with_name(f"{JOURNAL}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(beside, flags, PRIVATE_FILE)
        try:
            for entry in entries:
                write_all(descriptor, encode(entry))
            os.fsync(descriptor)
            beside.replace(self._path)
        except OSError as error:
            os.close(descriptor)
            beside.unlink(missing_ok=True)
            if not is_full(error):
                raise
            self.full = True
            return
        sync_directory(self._directory)
        os.close(self._descriptor)
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def _keep_ballast(self) -> None:
        """Keep room for what has to be written when there is none."""
        try:
            if self._ballast.exists() and self._ballast.stat().st_size == BALLAST_BYTES:
                self.full = False
                return
            descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE)
            try:
                os.posix_fallocate(descriptor, 0, BALLAST_BYTES)
            finally:
                os.close(descriptor)
            self.full = False
        except OSError as error:
            if not is_full(error):
                raise
            self._give_up_ballast()
            self.full = True

    def _give_up_ballast(self) -> None:
        with suppress(OSError):
            self._ballast.unlink(missing_ok=True)
