"""CPU time of processes and of the whole machine, and which cores a process may use (Linux)."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FIRST_AFTER_NAME = 3
"""The first field of ``/proc/<pid>/stat`` behind the parenthesised name (proc(5))."""
UTIME, STIME = 14, 15
BUSY_FIELDS = (0, 1, 2, 5, 6, 7)
"""Of the ``cpu`` line: user, nice, system, irq, softirq, steal."""


def cpu_seconds(pid: int) -> float:
    """Return the CPU time, user and system, that a process has used."""
    # The name may hold spaces and parentheses; the last one closes it.
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    ticks = int(fields[UTIME - FIRST_AFTER_NAME]) + int(fields[STIME - FIRST_AFTER_NAME])
    return ticks / TICKS_PER_S


def machine_busy_seconds() -> float:
    """Return the CPU time that everything on the machine has used."""
    fields = Path("/proc/stat").read_text("utf-8").splitlines()[0].split()[1:]
    return sum(int(fields[i]) for i in BUSY_FIELDS) / TICKS_PER_S


def pin(pid: int, cores: Iterable[int]) -> None:
    """Keep all threads of a process, and those that they will start, on some cores."""
    allowed = set(cores)
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):  # a thread that has just ended
            os.sched_setaffinity(int(task.name), allowed)


def one_core_and_the_rest() -> tuple[set[int], set[int]]:
    """Split the cores that this process may use; with a single one both are that one."""
    first, *rest = sorted(os.sched_getaffinity(0))
    return {first}, set(rest) or {first}


class CpuMeter:
    """CPU time by process from its making on, and what the rest of the machine used meanwhile."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = {**pids, "bench": os.getpid()}
        self._start = {name: cpu_seconds(pid) for name, pid in self._pids.items()}
        self._busy = machine_busy_seconds()

    def used(self) -> dict[str, float]:
        """Return the CPU seconds of each process; ``others`` are all processes not of this run."""
        used = {name: cpu_seconds(pid) - self._start[name] for name, pid in self._pids.items()}
        used["others"] = max(0.0, machine_busy_seconds() - self._busy - sum(used.values()))
        return used
