"""The worker processes of a chaos run: started, stopped, killed and replaced by number."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chaos.forks import Forks, Process
from tests.chaos.orders import FOLDER_VARIABLE, open_folder
from tests.chaos.roles import Role
from tests.chaos.waiting import eventually
from tests.chaos.worker import BROKEN_VARIABLE, SERVICE_VARIABLE

WORKER_MODULE: Final = "tests.chaos.worker"
EXIT_FENCED: Final = 3


@dataclass(slots=True, kw_only=True)
class Worker(Process):
    """One process of a role."""

    role: Role
    share: int


class Crew(Forks[Worker]):
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
        own = {BROKEN_VARIABLE: broken} if broken else {}
        super().__init__(
            WORKER_MODULE, {**settings, FOLDER_VARIABLE: str(self.orders), **own}, folder
        )

    async def start_all(self, roles: Sequence[Role]) -> None:
        """Start a worker for each share of each role."""
        for role in roles:
            for share in range(role.processes):
                await self.start(role, share)

    async def start(self, role: Role, share: int) -> Worker:
        """Start a worker of a share; it takes the place of the one before."""
        own = role.environment() | {
            SERVICE_VARIABLE: role.name,
            "WALRAS_REPLICA_INDEX": str(share),
            "WALRAS_REPLICA_COUNT": str(role.processes),
        }
        start, pid, log = await self.fork(_key(role, share), own)
        name = f"{role.name} worker {share} (process {pid})"
        worker = Worker(name=name, start=start, pid=pid, log=log, role=role, share=share)
        self.processes[_key(role, share)] = worker
        return worker

    def of_partition(self, role: Role, partition: int) -> Worker:
        """Return the worker that has a partition."""
        return self.processes[_key(role, partition % role.processes)]

    def another(self, worker: Worker, draw: int) -> Worker:
        """Return one of the other workers."""
        others = [each for each in self.processes.values() if each is not worker]
        return others[draw // 11 % len(others)]

    def halt(self, worker: Worker) -> None:
        """Let a worker sleep (SIGSTOP)."""
        self.send(worker, signal.SIGSTOP)

    def wake(self, worker: Worker) -> None:
        """Let a worker go on (SIGCONT)."""
        self.send(worker, signal.SIGCONT)

    async def sleeps(self, worker: Worker) -> None:
        """Wait until a worker was stopped by a signal."""
        await eventually(lambda: _state_of(worker.pid) == "T", f"{worker.name} to stop", self.look)


def _key(role: Role, share: int) -> str:
    return f"{role.name}/{share}"


def _state_of(pid: int) -> str:
    """Return the state of a process as the kernel's letter."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
