"""A log as files, for audits without a broker: ``DIR/TOPIC/PARTITION.jsonl``, one record a line.

A record is ``{"offset", "key", "type", "value"}``, the value as text, or null for a tombstone; what
is not UTF-8 is under ``"base64"`` instead. A barrier is ``{"offset", "barrier",
"market_time_ms"}``.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from walras.audit.log_view import AUDITED_TOPICS, NO_BARRIER, AuditError, AuditLog, Entry
from walras_runtime.records import BARRIER_TYPE

SUFFIX: Final = ".jsonl"
TAIL_BYTES: Final = 65_536
BYTES_A_RECORD: Final = 500
"""About; for a progress bar."""


class DirectoryLog:
    """A log that :func:`save_log` wrote.

    Raises
    ------
    AuditError
        There is no such directory.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        if not root.is_dir():
            raise AuditError(f"{root} is no directory")

    def partitions(self, topic: str) -> range:
        """Return the partitions of a topic; none where the log does not have it.

        Raises
        ------
        AuditError
            One between others is missing.
        """
        held = {path.name for path in (self._root / topic).glob(f"*{SUFFIX}")}
        for partition in range(len(held)):
            path = self._path(topic, partition)
            if path.name not in held:
                raise AuditError(f"{path} is missing beside {', '.join(sorted(held))}")
        return range(len(held))

    def size(self, topic: str, partition: int) -> int:
        """Return about how many records a partition holds."""
        return self._path(topic, partition).stat().st_size // BYTES_A_RECORD

    def entries(self, topic: str, partition: int) -> Iterator[Entry]:
        """Yield what a partition holds, in order."""
        path = self._path(topic, partition)
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    yield _entry(line, f"{path}:{number}")
        except OSError as error:
            raise AuditError(f"{path}: {error.strerror or error}") from error

    def last_barrier(self, topic: str, partition: int) -> int:
        """Return the number of the last barrier of a partition; -1: it has none."""
        path = self._path(topic, partition)
        size = path.stat().st_size
        tail = TAIL_BYTES
        while True:
            begin = max(0, size - tail)
            with path.open("rb") as file:
                file.seek(begin)
                lines = file.read().splitlines()
            # The first line may have been cut, unless the file was read whole.
            for line in reversed(lines[1 if begin else 0 :]):
                entry = _entry(line, str(path))
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
    try:
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise AuditError(f"{root} is not empty")
        for topic in AUDITED_TOPICS:
            for partition in log.partitions(topic):
                path = root / topic / f"{partition}{SUFFIX}"
                path.parent.mkdir(exist_ok=True)
                with path.open("w", encoding="utf-8") as file:
                    for entry in log.entries(topic, partition):
                        file.write(json.dumps(_document(entry), ensure_ascii=False) + "\n")
                        done += 1
                        progress(min(done, total), total)
    except OSError as error:
        raise AuditError(f"{root}: {error.strerror or error}") from error
    return done


def _document(entry: Entry) -> dict[str, Any]:
    if entry.barrier is not None:
        number, at_ms = entry.barrier
        return {"offset": entry.offset, "barrier": number, "market_time_ms": at_ms}
    document: dict[str, Any] = {"offset": entry.offset, "key": entry.key, "type": entry.type}
    try:
        return document | {"value": None if entry.value is None else entry.value.decode()}
    except UnicodeDecodeError:
        return document | {"base64": b64encode(entry.value or b"").decode()}


def _entry(line: bytes, where: str) -> Entry:
    try:
        document = json.loads(line)
        offset = int(document["offset"])
        if "barrier" in document:
            mark = (int(document["barrier"]), int(document["market_time_ms"]))
            return Entry(offset, "", BARRIER_TYPE, b"", mark)
        value = document.get("value")
        data = None if value is None else str(value).encode()
        if "base64" in document:
            data = b64decode(document["base64"], validate=True)
        return Entry(offset, str(document["key"]), str(document["type"]), data)
    except (ValueError, KeyError, TypeError, Base64Error) as error:
        raise AuditError(f"{where}: not a record of a log: {error!r}") from error
