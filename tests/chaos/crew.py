"""The worker processes of a chaos run: started, stopped, killed and replaced by number."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos.orders import FOLDER_VARIABLE, open_folder
from tests.chaos.roles import Role
from tests.chaos.waiting import PATIENCE_S, ChaosError, eventually
from tests.chaos.worker import BROKEN_VARIABLE, SERVICE_VARIABLE
from tests.performance.machine import ROOT
from walras.processes import Zygote

WORKER_MODULE: Final = "tests.chaos.worker"
TAIL_LINES: Final = 15
EXIT_FENCED: Final = 3
KILLED: Final = -int(signal.SIGKILL)


@dataclass(slots=True)
class Worker:
    """One process of a role: the start's number at the zygote, and what it may end with.

    ``may_end`` are the exit codes that the run causes itself.
    """

    role: Role
    share: int
    start: int
    pid: int
    log: Path
    may_end: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        """Name for people."""
        return f"{self.role.name} worker {self.share} (process {self.pid})"

    def text(self) -> str:
        """Return its log."""
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def tail(self) -> str:
        """Return the end of its log."""
        return "\n".join(self.text().splitlines()[-TAIL_LINES:])


class Crew:
    """All workers; they die with this process.

    Parameters
    ----------
    settings
        Environment of all workers.
    folder
        For logs and orders.
    broken
        Which broken build to run; empty: none.
    """

    def __init__(self, settings: Mapping[str, str], folder: Path, broken: str = "") -> None:
        self.orders = folder / "orders"
        open_folder(self.orders)
        self._folder = folder
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("WALRAS_")
        }
        self._environment |= {**settings, FOLDER_VARIABLE: str(self.orders)}
        self._environment |= {BROKEN_VARIABLE: broken} if broken else {}
        self._zygote = Zygote([WORKER_MODULE], folder / "zygote.log", str(ROOT))
        self._count = 0
        self._workers: dict[tuple[str, int], Worker] = {}

    async def start_all(self, roles: Sequence[Role]) -> None:
        """Start a worker for each share of each role."""
        for role in roles:
            for share in range(role.processes):
                await self.start(role, share)

    async def start(self, role: Role, share: int) -> Worker:
        """Start a worker of a share; it takes the place of the one before."""
        self._count += 1
        log = self._folder / f"{role.name}-{share}-{self._count}.log"
        own = role.environment() | {
            SERVICE_VARIABLE: role.name,
            "WALRAS_REPLICA_INDEX": str(share),
            "WALRAS_REPLICA_COUNT": str(role.processes),
        }
        command = {
            "module": WORKER_MODULE,
            "environment": self._environment | own,
            "log": str(log.resolve()),
            "nice": 0,
        }
        # The first start waits until the zygote has imported everything.
        number, pid = await asyncio.to_thread(self._zygote.start, command)
        worker = self._workers[role.name, share] = Worker(role, share, number, pid, log)
        return worker

    def of_partition(self, role: Role, partition: int) -> Worker:
        """Return the worker that has a partition."""
        return self._workers[role.name, partition % role.processes]

    def another(self, worker: Worker, draw: int) -> Worker:
        """Return one of the other workers."""
        others = [each for each in self._workers.values() if each is not worker]
        return others[draw // 11 % len(others)]

    def look(self) -> None:
        """Check that no worker has ended by itself.

        Raises
        ------
        ChaosError
            One has; with the end of its log.
        """
        for worker in self._workers.values():
            code = self._zygote.ended(worker.start)
            if code is not None and code not in worker.may_end:
                raise ChaosError(f"{worker.name} ended with {code}; its log:\n{worker.tail()}")

    async def kill(self, worker: Worker) -> None:
        """Kill a worker without warning; returned when it has ended."""
        worker.may_end.add(KILLED)
        self._zygote.signal(worker.start, signal.SIGKILL)
        await self.end_of(worker, KILLED)

    def halt(self, worker: Worker) -> None:
        """Let a worker sleep (SIGSTOP)."""
        self._zygote.signal(worker.start, signal.SIGSTOP)

    def wake(self, worker: Worker) -> None:
        """Let a worker go on (SIGCONT)."""
        self._zygote.signal(worker.start, signal.SIGCONT)

    async def end_of(self, worker: Worker, code: int) -> None:
        """Wait until a worker ends with a code.

        Raises
        ------
        ChaosError
            It ended otherwise, or not in time.
        """
        worker.may_end.add(code)
        found = await asyncio.to_thread(self._zygote.wait, worker.start, PATIENCE_S)
        if found != code:
            raise ChaosError(
                f"{worker.name} ended with {found}, not with {code}; its log:\n{worker.tail()}"
            )

    async def sleeps(self, worker: Worker) -> None:
        """Wait until a worker was stopped by a signal."""
        await eventually(lambda: _state_of(worker.pid) == "T", f"{worker.name} to stop", self.look)

    async def stop(self) -> None:
        """Ask all workers to stop, and check that they do so in good order."""
        for worker in self._workers.values():
            self._zygote.signal(worker.start, signal.SIGTERM)
        for worker in self._workers.values():
            await self.end_of(worker, 0)

    def close(self) -> None:
        """End whatever still runs."""
        self._zygote.close()


def _state_of(pid: int) -> str:
    """Return the state of a process as the kernel's letter."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
