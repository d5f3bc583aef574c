"""The processes of a run: started, killed and started again by name; agents by `agent/<node>`."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.chaos.forks import Forks, Process
from tests.chaos.orders import FOLDER_VARIABLE, open_folder
from tests.chaos_drains.left_running import end_all
from tests.chaos_drains.market import DEVICES_VARIABLE, EVIDENCE_VARIABLE
from tests.chaos_drains.plan import Plan
from tests.chaos_drains.terms import DEVICES, NODES, Times
from tests.chaos_drains.worker import PLAN_VARIABLE, ROLE_VARIABLE

WORKER_MODULE: Final = "tests.chaos_drains.worker"
SERVICES: Final = ("ticker", "capacity", "market", "placement", "drain")
AGENTS: Final = tuple(f"agent/{node}" for node in NODES)


class Crew(Forks[Process]):
    """All processes but the broker's; what agents started does not die with this process.

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
        settings = {
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
        super().__init__(WORKER_MODULE, settings, self.folder)

    async def start_all(self) -> None:
        """Start everything."""
        for name in (*SERVICES, *AGENTS):
            await self.start(name)

    async def start(self, name: str) -> None:
        """Start a process; it takes the place of the one before."""
        role, _, node = name.partition("/")
        own = {ROLE_VARIABLE: role, **(self._of_agent(node) if node else {})}
        start, pid, log = await self.fork(name, own)
        self.processes[name] = Process(name=name, start=start, pid=pid, log=log)

    def close(self) -> None:
        """End whatever still runs, what agents started too."""
        try:
            super().close()
        finally:
            end_all(self.folder)

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
