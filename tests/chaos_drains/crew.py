"""The processes of a run: started, killed and started again by name; agents by `agent/<node>`."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos.orders import FOLDER_VARIABLE, open_folder
from tests.chaos.waiting import PATIENCE_S, ChaosError
from tests.chaos_drains.market import DEVICES_VARIABLE, EVIDENCE_VARIABLE
from tests.chaos_drains.plan import Plan
from tests.chaos_drains.terms import DEVICES, NODES, Times
from tests.chaos_drains.worker import PLAN_VARIABLE, ROLE_VARIABLE
from tests.performance.machine import ROOT
from walras.processes import Zygote
from walras_node_agent.host.machine import parents

WORKER_MODULE: Final = "tests.chaos_drains.worker"
SERVICES: Final = ("ticker", "capacity", "market", "placement", "drain")
AGENTS: Final = tuple(f"agent/{node}" for node in NODES)
TAIL_LINES: Final = 25
KILLED: Final = -int(signal.SIGKILL)


@dataclass(slots=True)
class Process:
    """One process: the start's number at the zygote, and what it may end with."""

    name: str
    start: int
    pid: int
    log: Path
    may_end: set[int] = field(default_factory=set)

    def tail(self) -> str:
        """Return the end of its log."""
        text = self.log.read_text("utf-8", "replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-TAIL_LINES:])


class Crew:
    """All processes but the broker's; they die with this process, what agents started does not.

    Parameters
    ----------
    bootstrap
        Address of the broker.
    folder
        For logs, orders, evidence, and what agents keep.
    plan, times
        Of the run.
    """

    def __init__(self, bootstrap: str, folder: Path, plan: Plan, times: Times) -> None:
        self.folder = folder.resolve()
        self.orders = self.folder / "orders"
        self.evidence = self.folder / "evidence"
        open_folder(self.orders)
        self.evidence.mkdir(parents=True, exist_ok=True)
        self._times = times
        clean = {n: v for n, v in os.environ.items() if not n.startswith("WALRAS_")}
        self._environment = clean | {
            "WALRAS_KAFKA_BOOTSTRAP": bootstrap,
            "WALRAS_MODE": "live",
            "WALRAS_INTERVAL_MS": str(times.interval_ms),
            "WALRAS_CYCLE_EVERY": "1",
            "WALRAS_TRANSACTION_TIMEOUT_MS": "3000",
            "WALRAS_ELECTION_SESSION_MS": "1000",
            "WALRAS_PLACEMENT_HELD_BACK_CYCLES": "3",
            FOLDER_VARIABLE: str(self.orders),
            EVIDENCE_VARIABLE: str(self.evidence),
            DEVICES_VARIABLE: str(self.folder),
            PLAN_VARIABLE: json.dumps(
                {"seed": plan.seed, "still": plan.still, "times": asdict(times)}
            ),
        }
        self._zygote = Zygote([WORKER_MODULE], self.folder / "zygote.log", str(ROOT))
        self._count = 0
        self.processes: dict[str, Process] = {}

    async def start_all(self) -> None:
        """Start everything."""
        for name in (*SERVICES, *AGENTS):
            await self.start(name)

    async def start(self, name: str) -> Process:
        """Start a process; it takes the place of the one before."""
        self._count += 1
        role, _, node = name.partition("/")
        log = self.folder / f"{role}{f'-{node}' if node else ''}-{self._count}.log"
        own = {ROLE_VARIABLE: role, **(self._of_agent(node) if node else {})}
        command = {
            "module": WORKER_MODULE,
            "environment": self._environment | own,
            "log": str(log),
            "nice": 0,
        }
        # The first start waits until the zygote has imported everything.
        number, pid = await asyncio.to_thread(self._zygote.start, command)
        process = self.processes[name] = Process(name, number, pid, log)
        return process

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

    async def kill(self, name: str) -> None:
        """Kill a process without warning; returned when it has ended."""
        process = self.processes[name]
        process.may_end.add(KILLED)
        self._zygote.signal(process.start, signal.SIGKILL)
        await self.end_of(name, KILLED)

    async def end_of(self, name: str, code: int) -> None:
        """Wait until a process ends with a code.

        Raises
        ------
        ChaosError
            It ended otherwise, or not in time.
        """
        process = self.processes[name]
        process.may_end.add(code)
        found = await asyncio.to_thread(self._zygote.wait, process.start, PATIENCE_S)
        if found != code:
            raise ChaosError(
                f"{name} ended with {found}, not with {code}; its log:\n{process.tail()}"
            )

    async def stop(self) -> None:
        """Ask all processes to stop, and check that they do so in good order."""
        for process in self.processes.values():
            self._zygote.signal(process.start, signal.SIGTERM)
        for name in self.processes:
            await self.end_of(name, 0)

    def started_by_agents(self) -> list[int]:
        """Return what runs of jobs, and their keepers: by the folder that they were told of."""
        mark = str(self.folder).encode()
        return [pid for pid in sorted(parents()) if pid != os.getpid() and _names(pid, mark)]

    def close(self) -> None:
        """End whatever still runs."""
        self._zygote.close()
        for pid in self.started_by_agents():
            os.kill(pid, signal.SIGKILL)

    def _of_agent(self, node: str) -> Mapping[str, str]:
        own = {
            "NODE": node,
            "STATE_DIRECTORY": str(self.folder / node / "state"),
            "DEVICE_DIRECTORY": str(self.folder / node / "devices"),
            "CHECKPOINT_DIRECTORY": str(self.folder / "checkpoints"),
            "DEVICES": str(DEVICES),
            "POLL_MS": "50",
            "DEVICE_READ_MS": "100",
            "HEARTBEAT_MS": str(self._times.heartbeat_ms),
            "PROGRESS_MS": "500",
            "ORPHAN_MS": str(self._times.orphan_ms),
            "LEAVE_MS": "200",
            "TERMINATE_MS": "500",
            "VERIFY_MS": "2000",
        }
        return {f"WALRAS_NODE_AGENT_{name}": value for name, value in own.items()}


def _names(pid: int, mark: bytes) -> bool:
    """Whether a process is a keeper of the folder, or was started with a part's directory in it."""
    root = Path("/proc") / str(pid)
    try:
        command = (root / "cmdline").read_bytes()
        environment = (root / "environ").read_bytes()
    except OSError:
        return False
    is_keeper = b"walras_node_agent.host.keeper" in command and mark in command
    return is_keeper or any(
        word.startswith(b"WALRAS_CONTROL_DIR=" + mark) for word in environment.split(b"\0")
    )
