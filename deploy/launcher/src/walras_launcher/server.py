"""A server that this process owns: start, stop, kill, restart on the same directory and ports."""

import abc
import atexit
import contextlib
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from walras_launcher.cache import RunDirectory
from walras_launcher.errors import LauncherError, log_tail
from walras_launcher.ports import PortReservation
from walras_launcher.process import STOP_GRACE_S, kill, spawn, terminate

POLL_S = 0.02
PORT_ATTEMPTS = 3
_PORT_IN_USE = ("Address already in use", "bind: Address", "port already in use")

_Server = TypeVar("_Server", bound="OwnedServer")
_living: "weakref.WeakSet[OwnedServer]" = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of a ladder: what was tried, whether it was taken, and why or why not.

    Attributes
    ----------
    name
        Name of the step, for example ``maven``.
    taken
        Whether this step gave the server.
    reason
        Why it was, or was not, in one sentence.
    """

    name: str
    taken: bool
    reason: str


@atexit.register
def _stop_all() -> None:
    for server in list(_living):
        # The interpreter ends: nobody is left to handle it, and the kernel kills what remains.
        with contextlib.suppress(LauncherError, OSError):
            server.stop()


class OwnedServer(abc.ABC):
    """A child process that answers on loopback ports.

    Parameters
    ----------
    run
        The directory it works in; closed by :meth:`stop`.
    ports
        Reservations of its ports; released by :meth:`stop`.
    ready_timeout_s
        How long a start may take, in seconds.
    """

    name: str = "server"

    def __init__(
        self, run: RunDirectory, ports: list[PortReservation], ready_timeout_s: float
    ) -> None:
        self._run = run
        self._ports = ports
        self._ready_timeout_s = ready_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.RLock()
        self._closed = False
        self.rungs: tuple[Rung, ...] = ()

    @abc.abstractmethod
    def command(self) -> list[str]:
        """Return program and arguments; called before every start."""

    @abc.abstractmethod
    def answers(self) -> bool:
        """Tell whether the server answers as what it is, not only that a port is open."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Say in one line what runs here, with its version and where it came from."""

    @property
    def directory(self) -> Path:
        """Where the server keeps its settings, data and log."""
        return self._run.path

    @property
    def log(self) -> Path:
        """The server's output, of all its starts."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """Process id of the server.

        Raises
        ------
        LauncherError
            ``not_running``.
        """
        if self._process is None:
            raise self._not_running()
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process and wait until it answers.

        Raises
        ------
        LauncherError
            ``already_running``, ``stopped_for_good``, ``port_race``, ``exited_early`` or
            ``not_ready``.
        """
        with self._guard:
            if self._closed:
                raise LauncherError(
                    "stopped_for_good",
                    f"This {self.name} was stopped and its directory and ports were given back.",
                    "Start a new one; use kill() and restart() for an outage.",
                )
            if self.running:
                raise LauncherError(
                    "already_running", f"This {self.name} runs already.", "Use restart()."
                )
            self._start_once()

    def stop(self) -> None:
        """Stop the server, remove its temporary directory, give back its ports.

        SIGTERM first, SIGKILL after the grace time. A second call does nothing.
        """
        with self._guard:
            self.terminate()
            self._close()

    def terminate(self, grace_s: float = STOP_GRACE_S) -> None:
        """Stop the server in good order but keep directory and ports, for :meth:`restart`.

        Parameters
        ----------
        grace_s
            Seconds between SIGTERM and SIGKILL.
        """
        with self._guard:
            if self._process is not None:
                terminate(self._process, grace_s)
                self._process = None

    def kill(self) -> None:
        """Kill the server with SIGKILL; directory and ports stay, for :meth:`restart`."""
        with self._guard:
            if self._process is not None:
                kill(self._process)
                self._process = None

    def restart(self) -> None:
        """Start again on the same directory and ports, after stopping what still runs."""
        with self._guard:
            self.terminate()
            self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start_once(self) -> None:
        offset = self.log.stat().st_size if self.log.exists() else 0
        _living.add(self)
        process = spawn(self.command(), log=self.log, directory=self.directory)
        self._process = process
        deadline = time.monotonic() + self._ready_timeout_s
        # A stranger on the port may answer while our process dies of it: look at both.
        while not (self.answers() and process.poll() is None):
            if process.poll() is not None:
                self._process = None
                raise self._exited(process.returncode, offset)
            if time.monotonic() > deadline:
                kill(process)
                self._process = None
                raise LauncherError(
                    "not_ready",
                    f"The {self.name} did not answer within {self._ready_timeout_s:.0f} s:\n"
                    f"{log_tail(self.log)}\n",
                    "Look at the log above; a loaded machine may need another try.",
                    retriable=True,
                )
            time.sleep(POLL_S)

    def _exited(self, code: int, offset: int) -> LauncherError:
        with self.log.open("rb") as handle:
            handle.seek(offset)
            said = handle.read().decode("utf-8", "replace")
        if any(sign in said for sign in _PORT_IN_USE):
            return LauncherError(
                "port_race",
                f"The {self.name} found its port taken:\n{log_tail(self.log)}\n",
                "Try again.",
                retriable=True,
            )
        return LauncherError(
            "exited_early",
            f"The {self.name} ended with exit code {code} before it answered:\n"
            f"{log_tail(self.log)}\n",
            f"Look at the log above, then at {self.log}.",
        )

    def _not_running(self) -> LauncherError:
        return LauncherError("not_running", f"This {self.name} is not running.", "Use restart().")

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            for port in self._ports:
                port.release()
            self._run.close()
            _living.discard(self)


def start_on_free_ports(make: Callable[[], _Server]) -> _Server:
    """Start what ``make`` returns; where its ports were taken meanwhile, make another one.

    Parameters
    ----------
    make
        Returns a server that is not started, with ports of its own.

    Raises
    ------
    LauncherError
        What :meth:`OwnedServer.start` raises.
    """
    for attempt in range(1, PORT_ATTEMPTS + 1):
        server = make()
        try:
            server.start()
        except BaseException as error:
            server.stop()
            raced = isinstance(error, LauncherError) and error.code == "port_race"
            if not raced or attempt == PORT_ATTEMPTS:
                raise
        else:
            return server
    raise AssertionError("the loop returns or raises")
