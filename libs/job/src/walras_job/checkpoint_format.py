"""The bytes of a checkpoint: magic, payload, and a trailer from which a damaged one is told.

===========  ==========================================================================
8 bytes      ``WALRASC1``
n bytes      the payload
4 x 8 bytes  step, attempt, number, n; unsigned, most significant byte first
4 bytes      CRC-32 of everything before it
8 bytes      ``1CSARLAW``
===========  ==========================================================================

CRC-32, since what it is there for is torn and rotten files, not forgers: it finds every change of
32 bits in a row or less, takes a fourth of the time of SHA-256, and a save has a deadline.
"""

import io
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from walras_job.disk_faults import write_fault
from walras_job.durable import write_all

BEGIN: Final = b"WALRASC1"
END: Final = b"1CSARLAW"
_FIELDS: Final = struct.Struct(">QQQQ")
_SUM: Final = struct.Struct(">I")
TRAILER_BYTES: Final = _FIELDS.size + _SUM.size + len(END)
CHUNK_BYTES: Final = 1 << 20

Payload = bytes | bytearray | memoryview | Callable[[BinaryIO], None]
"""What is saved: the bytes, or a function that writes them to a stream without seeking."""


@dataclass(frozen=True, slots=True)
class Label:
    """What a checkpoint says of itself; later ones have the greater (attempt, number)."""

    step: int
    attempt: int
    number: int


class PayloadStream(io.BufferedIOBase):
    """What a payload function writes to; cannot seek. ``failure`` keeps what the disk said.

    A library in between may turn an error of ours into one of its own, or lose it.
    """

    def __init__(self, descriptor: int) -> None:
        self.failure: OSError | None = None
        self.written = 0
        self._descriptor = descriptor
        self._sum = 0
        self._waiting = bytearray()

    def writable(self) -> bool:
        """Say yes."""
        return True

    def write(self, data: object) -> int:
        """Take all of the bytes."""
        view = memoryview(data)  # type: ignore[arg-type] # raises TypeError where it is no buffer
        # Libraries write arrays too; those in pieces are copied together.
        flat = view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes())
        if len(self._waiting) + len(flat) < CHUNK_BYTES:
            self._waiting += flat
        else:
            self.flush()
            self._put(flat)
        return len(flat)

    def flush(self) -> None:
        """Hand what waits to the kernel."""
        waiting, self._waiting = self._waiting, bytearray()
        self._put(memoryview(waiting))

    def close(self) -> None:
        """Do nothing: the file is closed by whoever opened it."""

    def sum(self) -> int:
        """Return the CRC-32 of what was handed to the kernel."""
        return self._sum

    def _put(self, data: memoryview) -> None:
        if self.failure is not None:
            raise self.failure
        try:
            write_all(self._descriptor, data)
        except OSError as error:
            self.failure = error
            raise
        self._sum = zlib.crc32(data, self._sum)
        self.written += len(data)


def write_checkpoint(descriptor: int, path: Path, label: Label, payload: Payload) -> int:
    """Write a whole checkpoint to an empty file; return the size of its payload.

    Raises
    ------
    CheckpointWriteError
        The disk did not take it. What a payload function raises for its own reasons is passed on.
    """
    stream = PayloadStream(descriptor)
    try:
        stream.write(BEGIN)
        if callable(payload):
            payload(cast("BinaryIO", stream))
        else:
            stream.write(payload)
        stream.flush()
        size = stream.written - len(BEGIN)
        stream.write(_FIELDS.pack(label.step, label.attempt, label.number, size))
        stream.flush()
        stream.write(_SUM.pack(stream.sum()) + END)
        stream.flush()
    except Exception:
        if stream.failure is not None:
            raise write_fault(path, stream.failure) from stream.failure
        raise
    return size


def read_label(path: Path) -> tuple[Label, int] | None:
    """Return label and payload size of a checkpoint that is whole; None for a damaged one.

    Every byte is read. Raises OSError where it cannot be.
    """
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size < len(BEGIN) + TRAILER_BYTES or file.read(len(BEGIN)) != BEGIN:
            return None
        found = zlib.crc32(BEGIN)
        left = size - len(BEGIN) - TRAILER_BYTES
        while left:
            piece = file.read(min(left, CHUNK_BYTES))
            if not piece:
                return None
            found = zlib.crc32(piece, found)
            left -= len(piece)
        trailer = file.read(TRAILER_BYTES)
    if len(trailer) != TRAILER_BYTES or not trailer.endswith(END):
        return None
    fields = trailer[: _FIELDS.size]
    if _SUM.unpack_from(trailer, _FIELDS.size) != (zlib.crc32(fields, found),):
        return None
    step, attempt, number, payload_size = _FIELDS.unpack(fields)
    if payload_size != size - len(BEGIN) - TRAILER_BYTES:
        return None
    return Label(step, attempt, number), payload_size


class _Window(io.RawIOBase):
    """The payload of a file as a file of its own."""

    def __init__(self, path: Path, size: int) -> None:
        self._file = path.open("rb", buffering=0)
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type] # a writable buffer
        wanted = min(len(view), max(0, self._size - self._at))
        # Not through the file's own position: a forked child shares that.
        piece = os.pread(self._file.fileno(), wanted, len(BEGIN) + self._at)
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"position {base + offset} is before the payload")
        self._at = base + offset
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def open_payload(path: Path, size: int) -> BinaryIO:
    """Return the payload as a stream that can seek."""
    return cast("BinaryIO", io.BufferedReader(_Window(path, size), CHUNK_BYTES))
