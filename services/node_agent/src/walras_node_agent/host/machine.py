"""Clock, boot and processes of this machine."""

import os
import signal
import time
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

PROC: Final = Path("/proc")
_STATE, _PARENT, _STARTED = 0, 1, 19
"""Places in /proc/<pid>/stat behind the name."""
_CAUGHT: Final = "SigCgt:"


def boottime_ms() -> int:
    """Return the time since boot, sleep included, in ms; the wall clock has no part in it."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def boot_id() -> str:
    """Return a name of this boot: times since boot mean nothing in another one."""
    return PROC.joinpath("sys/kernel/random/boot_id").read_text("ascii").strip()


def seconds(duration_ms: int) -> Any:
    """Return a duration as the event loop takes it, exactly."""
    return Fraction(duration_ms, 1000)


def _stat(pid: int) -> list[str] | None:
    try:
        text = PROC.joinpath(str(pid), "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The name stands in brackets and may hold any.
    return text.rpartition(")")[2].split()


def started(pid: int) -> int | None:
    """Return when a process was started, in ticks since boot; None: it is gone, or a zombie.

    Pid and start together name a process; a pid alone may be another one's by now.
    """
    fields = _stat(pid)
    if fields is None or fields[_STATE] in {"Z", "X"}:
        return None
    return int(fields[_STARTED])


def is_alive(pid: int, start: int) -> bool:
    """Whether the process of that pid and start lives."""
    return started(pid) == start


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal; without one, many end it."""
    try:
        text = PROC.joinpath(str(pid), "status").read_text("utf-8", "replace")
    except OSError:
        return False
    for line in text.splitlines():
        if line.startswith(_CAUGHT):
            return bool(int(line.removeprefix(_CAUGHT), 16) >> (number - 1) & 1)
    return False


def name_of(pid: int) -> str:
    """Return the name of a process, for people."""
    try:
        return PROC.joinpath(str(pid), "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "?"


def parents() -> dict[int, int]:
    """Return every living process with its parent."""
    found: dict[int, int] = {}
    for entry in os.scandir(PROC):
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields is not None and fields[_STATE] not in {"Z", "X"}:
                found[int(entry.name)] = int(fields[_PARENT])
    return found


def with_variable(variable: str, value: str) -> list[int]:
    """Return the living processes that were started with a variable of that value."""
    wanted = f"{variable}={value}".encode()
    found = []
    for pid in sorted(parents()):
        try:
            environment = PROC.joinpath(str(pid), "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            found.append(pid)
    return found
