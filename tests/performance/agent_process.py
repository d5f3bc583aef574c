"""The real agent as a process, with simulated devices, and what it has started."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.performance.outside import BenchError
from walras_node_agent.host.machine import parents, with_variable

NODE: Final = "bench-node"
STOP_S: Final = 20
LOG_TAIL: Final = 3_000
BUSY_PPM: Final = 500_000
"""So busy the simulated devices are read, so that every heartbeat names every lease."""


class AgentProcess:
    """An agent with the settings that it is shipped with, and its directories.

    Parameters
    ----------
    bootstrap
        Its broker.
    directory
        Below it all that it keeps.
    devices
        How many it has.
    """

    def __init__(self, bootstrap: str, directory: Path, devices: int) -> None:
        self.devices = directory / "devices"
        self.checkpoints = directory / "checkpoints"
        self._state = directory / "state"
        self._log = directory / "agent.log"
        for device in range(devices):
            place = self.devices / str(device)
            place.mkdir(parents=True)
            (place / "busy_ppm").write_text(str(BUSY_PPM), "ascii")
        clean = {k: v for k, v in os.environ.items() if not k.startswith("WALRAS_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "walras_node_agent.agent"],
                env={
                    **clean,
                    "WALRAS_KAFKA_BOOTSTRAP": bootstrap,
                    "WALRAS_NODE_AGENT_NODE": NODE,
                    "WALRAS_NODE_AGENT_STATE_DIRECTORY": str(self._state),
                    "WALRAS_NODE_AGENT_CHECKPOINT_DIRECTORY": str(self.checkpoints),
                    "WALRAS_NODE_AGENT_DEVICE_DIRECTORY": str(self.devices),
                    "WALRAS_NODE_AGENT_DEVICES": str(devices),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        """Of the agent itself."""
        return self._process.pid

    def look(self) -> None:
        """Raise BenchError where it has ended."""
        if self._process.poll() is not None:
            raise BenchError(f"the agent ended with {self._process.returncode}:\n{self.tail()}")

    def tail(self) -> str:
        """Return the end of what it logged."""
        return self._log.read_text("utf-8", "replace")[-LOG_TAIL:]

    def keepers(self) -> list[int]:
        """Return the keepers of its parts: the processes that it started."""
        return [pid for pid, parent in sorted(parents().items()) if parent == self.pid]

    def close(self) -> None:
        """End the agent, then the jobs that it has started; their keepers end with them."""
        started = self.keepers()
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for part in self._state.glob("parts/*/control"):
            for pid in with_variable("WALRAS_CONTROL_DIR", str(part)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for pid in started:
            _wait_for_the_end_of(pid)


def _wait_for_the_end_of(pid: int) -> None:
    """Wait for a process that is nobody's child here; one that stays is left to its own end."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            # Readable once it has ended.
            select.select([descriptor], [], [], STOP_S)
        finally:
            os.close(descriptor)


@contextmanager
def running_agent(bootstrap: str, directory: Path, devices: int) -> Iterator[AgentProcess]:
    """Start an agent; nothing of it runs afterwards."""
    agent = AgentProcess(bootstrap, directory, devices)
    try:
        yield agent
    finally:
        agent.close()
