"""The processes of a run: started together, started again when they end, stopped together."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from walras_launcher.process import kill, spawn, terminate

MOST_RESTARTS = 10
"""How often a service may end by itself, not counting kills and lost leads."""
EXIT_USAGE = 2
EXIT_FENCED = 3
TAIL_LINES = 15


class ProcessError(RuntimeError):
    """A process of the run does not stay up; the message ends with the tail of its log."""

    code = "process_down"
    retriable = False


@dataclass(frozen=True, slots=True)
class Service:
    """One process to run: a module of this environment with settings of its own."""

    name: str
    module: str
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Running:
    service: Service
    process: "subprocess.Popen[bytes]"
    log: Path
    restarts: int = 0
    killed: bool = False


class Supervisor:
    """Runs services as child processes that die with this process.

    Parameters
    ----------
    services
        What to run.
    shared
        Environment variables for all of them.
    logs
        Folder for one log file a service.
    """

    def __init__(self, services: Sequence[Service], shared: Mapping[str, str], logs: Path) -> None:
        self._services = services
        self._shared = shared
        self._logs = logs
        self._running: dict[str, _Running] = {}
        self.exits: list[tuple[str, int]] = []

    def start(self) -> None:
        """Start all services at once."""
        self._logs.mkdir(parents=True, exist_ok=True)
        for service in self._services:
            log = self._logs / f"{service.name}.log"
            log.unlink(missing_ok=True)
            self._running[service.name] = _Running(service, self._spawn(service, log), log)

    def pid(self, name: str) -> int:
        """Return the process id of a service."""
        return self._running[name].process.pid

    def kill(self, name: str) -> None:
        """Kill a service without warning (SIGKILL); the next look starts it again."""
        running = self._running[name]
        running.killed = True
        kill(running.process)

    def names(self) -> list[str]:
        """Return the labels of all services, replicas included."""
        return list(self._running)

    def look(self) -> None:
        """Start again what has ended.

        Raises
        ------
        ProcessError
            A service ends again and again by itself.
        """
        for running in self._running.values():
            code = running.process.poll()
            if code is None:
                continue
            self.exits.append((running.service.name, code))
            if not running.killed:
                running.restarts += 1
            running.killed = False
            if running.restarts > MOST_RESTARTS or code == 2:
                raise ProcessError(
                    f"{running.service.name} ended with {code}; {running.log} ends with:\n"
                    + self.tail(running.service.name)
                )
            running.process = self._spawn(running.service, running.log)

    def tail(self, name: str) -> str:
        """Return the last lines of a service's log."""
        log = self._running[name].log
        lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
        return "\n".join(lines[-TAIL_LINES:])

    def stop(self) -> None:
        """Ask all to stop, then force what does not."""
        for running in self._running.values():
            if running.process.poll() is None:
                running.process.terminate()
        for running in self._running.values():
            terminate(running.process)
        self._running.clear()

    def _spawn(self, service: Service, log: Path) -> "subprocess.Popen[bytes]":
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("WALRAS_")
        }
        environment |= dict(self._shared) | dict(service.settings)
        return spawn(
            [sys.executable, "-m", service.module],
            log=log,
            directory=Path.cwd(),
            environment=environment,
        )
