"""The clearing service as a process: started on a broker, waited for, looked at, stopped."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tests.performance import fleet_profile
from tests.performance.machine import ROOT
from tests.performance.metrics import Totals, totals
from tests.performance.outside import BenchError, looker
from tests.performance.readiness import wait_until_ready
from walras.demo.services import MODULES
from walras.processes import Service, Supervisor
from walras_launcher.ports import PortReservation

KIB_PER_MIB = 1024
COUNTED_WITHIN_S = 10.0
COUNTED_POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Clearing:
    """A running clearing service; made by :func:`clearing`."""

    supervisor: Supervisor
    port: int
    profiled: bool

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.supervisor.pid("clearing")

    def look(self) -> None:
        """Check that it has not ended.

        Raises
        ------
        BenchError
            It has.
        """
        looker(self.supervisor)()

    async def ready(self) -> tuple[float, float]:
        """Wait until it is ready; return the seconds that took from now, and its CPU seconds."""
        return await wait_until_ready("clearing", self.port, self.pid, self.look)

    async def counted(self, steps: int) -> Totals:
        """Return its metrics once it has counted so many steps.

        A commit is seen on the log a moment before the service counts it.
        """
        end = perf_counter() + COUNTED_WITHIN_S
        while True:
            found = await totals(self.port)
            if found.steps == steps:
                return found
            if found.steps > steps or perf_counter() > end:
                raise BenchError(f"clearing has counted {found.steps} steps, not {steps}")
            await asyncio.sleep(COUNTED_POLL_S)

    def memory_mib(self) -> tuple[float, float]:
        """Return its resident memory now, and the most that it was."""
        return _kib(self.pid, "VmRSS") / KIB_PER_MIB, _kib(self.pid, "VmHWM") / KIB_PER_MIB

    def toggle_profile(self) -> None:
        """Begin to profile it, or end and write the profile; nothing where it is not profiled."""
        if self.profiled:
            os.kill(self.pid, signal.SIGUSR1)


@asynccontextmanager
async def clearing(bootstrap: str, logs: Path, profile: Path | None) -> AsyncIterator[Clearing]:
    """Run the service in replay mode with a cycle at every barrier.

    Parameters
    ----------
    profile
        Where a profile is written to, an absolute path; None: it is not profiled.
    """
    with PortReservation() as reserved:
        settings = {"WALRAS_CLEARING_HEALTH_PORT": str(reserved.port)}
        module = MODULES["clearing"]
        if profile is not None:
            module = fleet_profile.__name__
            settings |= {"PYTHONPATH": str(ROOT), fleet_profile.VARIABLE: str(profile)}
        shared = {"WALRAS_KAFKA_BOOTSTRAP": bootstrap, "WALRAS_MODE": "replay"}
        supervisor = Supervisor([Service("clearing", module, settings)], shared, logs)
        try:
            await asyncio.to_thread(supervisor.start)
            yield Clearing(supervisor, reserved.port, profile is not None)
        finally:
            await asyncio.to_thread(supervisor.stop)


def _kib(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    raise BenchError(f"the process status has no {name}")
