"""Processes of a run, forked from one zygote: killed and waited for; none may end by itself."""

import asyncio
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

from tests.chaos.waiting import PATIENCE_S, ChaosError
from tests.performance.machine import ROOT
from walras.processes import Zygote

TAIL_LINES: Final = 25
KILLED: Final = -int(signal.SIGKILL)


@dataclass(slots=True, kw_only=True)
class Process:
    """One process: the start's number at the zygote, and what it may end with.

    ``may_end`` are the exit codes that the run causes itself.
    """

    name: str
    start: int
    pid: int
    log: Path
    may_end: set[int] = field(default_factory=set)

    def text(self) -> str:
        """Return its log."""
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def tail(self) -> str:
        """Return the end of its log."""
        return "\n".join(self.text().splitlines()[-TAIL_LINES:])


P = TypeVar("P", bound=Process)


class Forks(Generic[P]):
    """The processes of a module; they die with this process.

    Parameters
    ----------
    module
        What all of them run.
    settings
        Environment of all of them; of the surroundings' nothing of Walras is left.
    folder
        For their logs.
    """

    def __init__(self, module: str, settings: Mapping[str, str], folder: Path) -> None:
        self._module = module
        self._folder = folder.resolve()
        clean = {n: value for n, value in os.environ.items() if not n.startswith("WALRAS_")}
        self._environment = clean | dict(settings)
        self._zygote = Zygote([module], folder / "zygote.log", str(ROOT))
        self._count = 0
        self.processes: dict[str, P] = {}
        """By name, the one that was started last."""

    async def fork(self, name: str, own: Mapping[str, str]) -> tuple[int, int, Path]:
        """Start a process with variables of its own; return its start, process id and log."""
        self._count += 1
        log = self._folder / f"{name.replace('/', '-')}-{self._count}.log"
        command = {
            "module": self._module,
            "environment": self._environment | dict(own),
            "log": str(log),
            "nice": 0,
        }
        # The first start waits until the zygote has imported everything.
        start, pid = await asyncio.to_thread(self._zygote.start, command)
        return start, pid, log

    def look(self) -> None:
        """Check that no process has ended by itself.

        Raises
        ------
        ChaosError
            One has; with the end of its log.
        """
        for process in self.processes.values():
            code = self._zygote.ended(process.start)
            if code is not None and code not in process.may_end:
                raise ChaosError(f"{process.name} ended with {code}; its log:\n{process.tail()}")

    def send(self, process: P, number: signal.Signals) -> None:
        """Send a signal to a process, unless it has ended."""
        self._zygote.signal(process.start, number)

    async def kill(self, process: P) -> None:
        """Kill a process without warning; returned when it has ended."""
        process.may_end.add(KILLED)
        self.send(process, signal.SIGKILL)
        await self.end_of(process, KILLED)

    async def end_of(self, process: P, code: int) -> None:
        """Wait until a process ends with a code.

        Raises
        ------
        ChaosError
            It ended otherwise, or not in time.
        """
        process.may_end.add(code)
        found = await asyncio.to_thread(self._zygote.wait, process.start, PATIENCE_S)
        if found != code:
            raise ChaosError(
                f"{process.name} ended with {found}, not with {code}; its log:\n{process.tail()}"
            )

    async def stop(self) -> None:
        """Ask all processes to stop, and check that they do so in good order."""
        for process in self.processes.values():
            self.send(process, signal.SIGTERM)
        for process in self.processes.values():
            await self.end_of(process, 0)

    def close(self) -> None:
        """End whatever still runs."""
        self._zygote.close()
