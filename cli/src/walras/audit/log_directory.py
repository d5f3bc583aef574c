"""A log as files, for audits without a broker: ``DIR/TOPIC/PARTITION.jsonl``, one record a line.

A record is ``{"offset", "key", "type", "data"}``, the data as the payload has it, byte for byte; so
commands that read events from files read these, too. A payload that is no JSON object is under
``"base64"``, and its data is null. A tombstone has the type ``tombstone`` and says ``"of"`` which.
A barrier is ``{"barrier", "market_time_ms"}``.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from walras.audit.log_view import AUDITED_TOPICS, NO_BARRIER, AuditError, AuditLog, Entry
from walras_contracts.strict_json import StrictJsonError, parse
from walras_runtime.records import BARRIER_TYPE

SUFFIX: Final = ".jsonl"
TAIL_BYTES: Final = 65_536
BYTES_A_RECORD: Final = 500
"""About; for a progress bar."""
TOMBSTONE: Final = "tombstone"
DATA: Final = b', "data": '
"""Before the payload. No name before it can hold this: quotes in names are escaped."""


class DirectoryLog:
    """A log that :func:`save_log` wrote.

    Raises
    ------
    AuditError
        There is no such directory. Reading raises it for what is not there or cannot be read.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        with _files(root):
            is_there = root.is_dir()
        if not is_there:
            raise AuditError(f"{root} is no directory")

    def partitions(self, topic: str) -> range:
        """Return the partitions of a topic; none where the log does not have it.

        Raises
        ------
        AuditError
            One between others is missing.
        """
        folder = self._root / topic
        with _files(folder):
            held = {path.name for path in folder.iterdir()} if folder.exists() else set()
        names = sorted(name for name in held if name.endswith(SUFFIX))
        for partition in range(len(names)):
            path = self._path(topic, partition)
            if path.name not in held:
                raise AuditError(f"{path} is missing beside {', '.join(names)}")
        return range(len(names))

    def size(self, topic: str, partition: int) -> int:
        """Return about how many records a partition holds."""
        path = self._path(topic, partition)
        with _files(path):
            return path.stat().st_size // BYTES_A_RECORD

    def entries(self, topic: str, partition: int) -> Iterator[Entry]:
        """Yield what a partition holds, in order; a barrier has the offset behind the last one."""
        path = self._path(topic, partition)
        offset = -1
        with _files(path), path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                entry = _entry(line, f"{path}:{number}", offset + 1)
                offset = entry.offset
                yield entry

    def last_barrier(self, topic: str, partition: int) -> int:
        """Return the number of the last barrier of a partition; -1: it has none."""
        path = self._path(topic, partition)
        tail = TAIL_BYTES
        while True:
            with _files(path), path.open("rb") as file:
                begin = max(0, path.stat().st_size - tail)
                file.seek(begin)
                lines = file.read().splitlines()
            # The first line may have been cut, unless the file was read whole.
            for line in reversed(lines[1 if begin else 0 :]):
                entry = _entry(line, str(path), 0)
                if entry.barrier is not None:
                    return entry.barrier[0]
            if not begin:
                return NO_BARRIER
            tail *= 8

    def _path(self, topic: str, partition: int) -> Path:
        return self._root / topic / f"{partition}{SUFFIX}"


def save_log(log: AuditLog, root: Path, progress: Callable[[int, int], None]) -> int:
    """Write all that an audit reads of a log into a directory; return how many records that are.

    Raises
    ------
    AuditError
        The directory holds something already, or cannot be written.
    """
    total = sum(log.size(t, p) for t in AUDITED_TOPICS for p in log.partitions(t))
    done = 0
    with _files(root):
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise AuditError(f"{root} is not empty")
        for topic in AUDITED_TOPICS:
            for partition in log.partitions(topic):
                path = root / topic / f"{partition}{SUFFIX}"
                path.parent.mkdir(exist_ok=True)
                with path.open("wb") as file:
                    for entry in log.entries(topic, partition):
                        file.write(_line(entry))
                        done += 1
                        progress(min(done, total), total)
    return done


@contextmanager
def _files(path: Path) -> Iterator[None]:
    """Say of which path it is that something cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise AuditError(f"{path}: {error.strerror or error}") from error


def _line(entry: Entry) -> bytes:
    if entry.barrier is not None:
        number, at_ms = entry.barrier
        return _text({"barrier": number, "market_time_ms": at_ms})
    head = {"offset": entry.offset, "key": entry.key, "type": entry.type}
    if entry.value is None:
        return _text(head | {"type": TOMBSTONE, "of": entry.type, "data": None})
    line = _text(head)[:-2] + DATA + entry.value + b"}\n"
    if _holds(line, entry.value):
        return line
    return _text(head | {"data": None, "base64": b64encode(entry.value).decode()})


def _text(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode() + b"\n"


def _holds(line: bytes, payload: bytes) -> bool:
    """Whether a line is one, of strict JSON, with an object as its data."""
    if not payload.startswith(b"{") or b"\n" in payload or b"\r" in payload:
        return False
    try:
        json.loads(line)
        parse(payload)
    except (StrictJsonError, ValueError, RecursionError):
        return False
    return True


def _entry(line: bytes, where: str, offset: int) -> Entry:
    """Read a line; ``offset`` is that of a barrier, which does not say its own."""
    try:
        document = json.loads(line)
        if "barrier" in document:
            mark = (int(document["barrier"]), int(document["market_time_ms"]))
            return Entry(offset, "", BARRIER_TYPE, b"", mark)
        offset, key, kind = int(document["offset"]), str(document["key"]), str(document["type"])
        if kind == TOMBSTONE:
            return Entry(offset, key, str(document["of"]), None)
        if "base64" in document:
            return Entry(offset, key, kind, b64decode(document["base64"], validate=True))
        return Entry(offset, key, kind, _payload(line, document))
    except (ValueError, KeyError, TypeError, Base64Error) as error:
        raise AuditError(f"{where}: not a record of a log: {error!r}") from error


def _payload(line: bytes, document: dict[str, Any]) -> bytes:
    """Return the data of a line as it stands there; anew, where others wrote the line."""
    _, separator, data = line.rstrip(b"\n").partition(DATA)
    if separator and [*document][-1] == "data":
        return data[:-1]
    return json.dumps(document["data"], ensure_ascii=False, separators=(",", ":")).encode()
