"""The processes of a run: started together, started again when they end, stopped together."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_RESTARTS = 10
"""How often a service may end by itself, not counting kills and lost leads."""
BACK_OFF_S = 0.5
"""Before the second start of what ended by itself; twice as long before each further one."""
BACK_OFF_MOST_S = 8.0
EXIT_USAGE = 2
EXIT_FENCED = 3
TAIL_LINES = 15
STOP_GRACE_S = 15.0
ZYGOTE = "walras.zygote"
ZYGOTE_WITHIN_S = 120.0


class ProcessError(RuntimeError):
    """A process of the run does not stay up; the message ends with the tail of its log."""

    code = "process_down"
    retriable = False


@dataclass(frozen=True, slots=True)
class Service:
    """One process to run: a module of this environment with settings of its own.

    ``nice`` lowers its priority: for what nobody waits for within a cycle.
    """

    name: str
    module: str
    settings: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0


class Zygote:
    """The process that forks the services (:mod:`walras.zygote`), as its parent sees it.

    Each start has a number of its own: the system gives the process id of one that has ended to
    another one sooner or later.
    """

    def __init__(self, modules: Sequence[str], log: Path, path: str | None = None) -> None:
        environment = dict(os.environ) | ({} if path is None else {"PYTHONPATH": path})
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                [sys.executable, "-m", ZYGOTE, *modules],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                env=environment,
                process_group=0,
            )
        self._log = log
        self._changed = threading.Condition()
        self._started: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._count = 0
        self._gone = False
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, command: dict[str, Any]) -> tuple[int, int]:
        """Fork a service; return the number of the start and the process id.

        Raises
        ------
        ProcessError
            The zygote ended.
        """
        self._count += 1
        number = self._count
        self._say(command | {"do": "start", "id": number})
        with self._changed:
            found = self._changed.wait_for(
                lambda: self._gone or number in self._started, ZYGOTE_WITHIN_S
            )
            if not found or number not in self._started:
                raise ProcessError(f"services cannot be started; see {self._log}")
            return number, self._started.pop(number)

    def signal(self, start: int, number: int) -> None:
        """Send a signal to what a start began, unless it has ended."""
        self._say({"do": "signal", "id": start, "number": number})

    def ended(self, start: int) -> int | None:
        """Return the exit code of what a start began, None while it runs."""
        with self._changed:
            return self._ended.get(start)

    def wait(self, start: int, seconds: float) -> int | None:
        """Wait for the end of what a start began; None when it has not come."""
        with self._changed:
            self._changed.wait_for(lambda: self._gone or start in self._ended, seconds)
            return self._ended.get(start)

    def close(self) -> None:
        """End the zygote; what still runs is killed with it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        with self._changed:
            self._changed.wait_for(lambda: self._gone, STOP_GRACE_S)

    def _say(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ProcessError(f"services cannot be reached; see {self._log}") from error

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as events:
            for line in events:
                event = json.loads(line)
                with self._changed:
                    if event["event"] == "started":
                        self._started[event["id"]] = event["pid"]
                    elif event["event"] == "ended":
                        self._ended[event["id"]] = event["code"]
                    self._changed.notify_all()
        with self._changed:
            self._gone = True
            self._changed.notify_all()


@dataclass(slots=True)
class _Running:
    service: Service
    start: int
    pid: int
    log: Path
    restarts: int = 0
    killed: bool = False
    again_at: float | None = None
    """When it is started again, by the monotonic clock; None while it runs."""


class Supervisor:
    """Runs services as processes that die with this process.

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
        self._shared = dict(shared)
        self._logs = logs
        self._running: dict[str, _Running] = {}
        self._zygote: Zygote | None = None
        self.exits: list[tuple[str, int]] = []

    def prepare(self) -> None:
        """Begin to import what the services need; returns at once."""
        if self._zygote is None:
            self._logs.mkdir(parents=True, exist_ok=True)
            modules = sorted({service.module for service in self._services})
            paths = {s.settings["PYTHONPATH"] for s in self._services if "PYTHONPATH" in s.settings}
            path = os.pathsep.join(sorted(paths)) if paths else None
            self._zygote = Zygote(modules, self._logs / "zygote.log", path)

    def start(self, shared: Mapping[str, str] | None = None) -> None:
        """Start all services at once; ``shared`` adds to their environment."""
        self._shared |= dict(shared or {})
        self.prepare()
        for service in self._services:
            log = self._logs / f"{service.name}.log"
            log.unlink(missing_ok=True)
            self._running[service.name] = _Running(service, *self._spawn(service, log), log)

    def pid(self, name: str) -> int:
        """Return the process id of a service."""
        return self._running[name].pid

    def kill(self, name: str) -> None:
        """Kill a service without warning (SIGKILL); the next look starts it again."""
        running = self._running[name]
        running.killed = running.again_at is None
        zygote = self._open_zygote()
        zygote.signal(running.start, signal.SIGKILL)
        zygote.wait(running.start, STOP_GRACE_S)

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
            if running.again_at is None:
                code = self._open_zygote().ended(running.start)
                if code is None:
                    continue
                running.again_at = time.monotonic() + self._ended(running, code)
            if time.monotonic() >= running.again_at:
                running.again_at = None
                running.start, running.pid = self._spawn(running.service, running.log)

    def _ended(self, running: _Running, code: int) -> float:
        """Note how a service ended; return the seconds until it is to be started again."""
        self.exits.append((running.service.name, code))
        by_itself = not running.killed and code != EXIT_FENCED
        running.killed = False
        running.restarts += by_itself
        if running.restarts > MOST_RESTARTS or code == EXIT_USAGE:
            raise ProcessError(
                f"{running.service.name} ended with {code}; {running.log} ends with:\n"
                + self.tail(running.service.name)
            )
        if not by_itself or running.restarts == 1:
            return 0.0
        # What it lacks may need a while, like a broker that is starting.
        return min(BACK_OFF_S * 2.0 ** (running.restarts - 2), BACK_OFF_MOST_S)

    def tail(self, name: str) -> str:
        """Return the last lines of a service's log."""
        log = self._running[name].log
        lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
        return "\n".join(lines[-TAIL_LINES:])

    def stop(self) -> None:
        """Ask all to stop, then force what does not."""
        zygote, self._zygote = self._zygote, None
        if zygote is None:
            return
        for running in self._running.values():
            zygote.signal(running.start, signal.SIGTERM)
            zygote.signal(running.start, signal.SIGCONT)
        end = time.monotonic() + STOP_GRACE_S
        for running in self._running.values():
            zygote.wait(running.start, max(0.0, end - time.monotonic()))
        self._running.clear()
        zygote.close()

    def _open_zygote(self) -> Zygote:
        if self._zygote is None:
            raise ProcessError("the services are not running")
        return self._zygote

    def _spawn(self, service: Service, log: Path) -> tuple[int, int]:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("WALRAS_")
        }
        environment |= self._shared | dict(service.settings)
        return self._open_zygote().start(
            {
                "module": service.module,
                "environment": environment,
                "log": str(log.resolve()),
                "nice": service.nice,
            }
        )
