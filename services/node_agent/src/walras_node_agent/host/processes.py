"""The processes of parts, each under a keeper of its own that outlives the agent."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from walras_node_agent.agent.contract import CONTROL_DIRECTORY_VARIABLE
from walras_node_agent.agent.launching import Launch
from walras_node_agent.host.calm import CalmParts
from walras_node_agent.host.cgroups import Cgroup
from walras_node_agent.host.files import (
    PRIVATE_DIRECTORY,
    create_file,
    read_document,
    read_small_file,
    sync_directory,
    write_document,
)
from walras_node_agent.host.keeper import EXIT, FAILED, GONE, KEEPER, SPEC, STARTED, TURN
from walras_node_agent.host.machine import boot_id, catches, is_alive, name_of, with_variable
from walras_node_agent.host.process_tree import below, kill_below, send, terminate_below
from walras_runtime.clock import wall_ms

NAMED_MOST: Final = 8
"""So many processes are named where a drain waits for them."""
_AGENT: Final = b"agent\n"
"""Who took the turn of a part."""
_KEEPER_MODULE: Final = "walras_node_agent.host.keeper"
_KEEPER_VARIABLES: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "HOME")
"""The keeper gets no more of the agent's environment: jobs may look into its."""


class Standing(Enum):
    """How the processes of a part stand."""

    PENDING = auto()
    """The job was not started yet, by its keeper or the agent."""
    FAILED = auto()
    """It could not be started."""
    RUNNING = auto()
    EXITED = auto()
    """The first process ended, others are left."""
    GONE = auto()
    """Nothing is left."""


@dataclass(frozen=True, slots=True)
class View:
    """How the processes of a part stand; times in ms since boot.

    ``code``: of the first process, None while it is not known. ``ended_ms``: when the last one
    ended, None where nobody saw it. ``orphaned``: the keeper ended them, for want of an agent.
    """

    standing: Standing
    code: int | None = None
    ended_ms: int | None = None
    orphaned: bool = False
    detail: str = ""


RUNS: Final = View(Standing.RUNNING)


class Processes:
    """The processes of all parts on this node.

    Parameters
    ----------
    directory
        Where each part has a directory of its own, named by its lease.
    beat
        The file in which the agent gives signs of life.
    orphan_ms
        After so long without one the keepers end what they keep.
    cgroup
        The cgroup under which each part gets one; None: without.
    wall
        Reads the wall clock, in ms since 1970 (UTC).
    """

    def __init__(
        self,
        directory: Path,
        beat: Path,
        orphan_ms: int,
        cgroup: Cgroup | None,
        *,
        wall: Callable[[], int] = wall_ms,
    ) -> None:
        self._directory = directory
        self._place = os.fspath(directory)
        self._beat = beat
        self._orphan_ms = orphan_ms
        self._cgroup = cgroup
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._calm = CalmParts(wall)
        directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)

    def of(self, lease: str) -> Path:
        """Return the directory of a part."""
        return self._directory.joinpath(lease)

    def control(self, lease: str) -> Path:
        """Return the directory in which agent and job talk to each other."""
        return self.of(lease).joinpath("control")

    def known(self) -> list[str]:
        """Return the leases that have a directory."""
        return sorted(path.name for path in self._directory.iterdir() if path.is_dir())

    def start(self, lease: str, launch: Launch) -> None:
        """Start a part; what becomes of it is seen by :meth:`look`.

        Raises
        ------
        OSError
            Its directories could not be made, or no process could be started.
        """
        directory = self.of(lease)
        control = self.control(lease)
        control.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        Path(launch.checkpoint_directory).mkdir(parents=True, exist_ok=True)
        spec = {
            "command": list(launch.command),
            "environment": dict(launch.environment),
            "directory": launch.directory,
            "beat": str(self._beat),
            "orphan_ms": self._orphan_ms,
            "cgroup": None if self._cgroup is None else str(self._cgroup.make(lease)),
        }
        write_document(directory.joinpath(SPEC), spec)
        sync_directory(self._directory)
        environment = {n: os.environ[n] for n in _KEEPER_VARIABLES if n in os.environ}
        with directory.joinpath("keeper.log").open("ab") as log:
            self._children[lease] = subprocess.Popen(
                [sys.executable, "-m", _KEEPER_MODULE, str(directory)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def reap(self) -> None:
        """Take the ends of keepers, so that they do not stay as zombies."""
        ended = [lease for lease, child in self._children.items() if child.poll() is not None]
        for lease in ended:
            del self._children[lease]

    def look(self, lease: str) -> View:
        """Return how the processes of a part stand."""
        place = f"{self._place}/{lease}"
        child = self._children.get(lease)
        lives = None if child is None else child.poll() is None
        if self._calm.runs(lease, place, keeper_lives=lives):
            return RUNS
        stamp_ns = self._calm.stamp_ns(place)
        view = self._read(lease)
        self._calm.note(lease, place, stamp_ns, runs=view == RUNS)
        return view

    def _read(self, lease: str) -> View:
        """Return how the processes of a part stand by the files of its directory."""
        directory = self.of(lease)
        if not directory.joinpath(SPEC).exists():
            return View(Standing.PENDING)
        failed = read_document(directory.joinpath(FAILED))
        if failed is not None:
            return View(Standing.FAILED, detail=str(failed.get("error")))
        gone = read_document(directory.joinpath(GONE))
        if gone is not None:
            # A time of another boot says nothing now.
            ended_ms = int(gone["at_ms"]) if gone["boot"] == boot_id() else None
            return View(Standing.GONE, int(gone["code"]), ended_ms, bool(gone["orphaned"]))
        end = read_document(directory.joinpath(EXIT))
        code = None if end is None else int(end["code"])
        if self._keeper(lease) is None:
            return self._without_keeper(lease, code)
        if end is None:
            there = directory.joinpath(STARTED).exists()
            return RUNS if there else View(Standing.PENDING)
        return View(Standing.EXITED, code)

    def _without_keeper(self, lease: str, code: int | None) -> View:
        """Look at a part whose keeper ended before it could say that nothing is left."""
        if self._left_over(lease):
            return View(Standing.EXITED, code)
        if not self.of(lease).joinpath(STARTED).exists():
            return View(Standing.FAILED, detail="its keeper ended before it was started")
        return View(Standing.GONE, code, detail="its keeper was ended")

    def _keeper(self, lease: str) -> int | None:
        """Return the pid of a part's keeper; None: it lives no more."""
        child = self._children.get(lease)
        if child is not None and child.poll() is None:
            return child.pid
        keeper = read_document(self.of(lease).joinpath(KEEPER))
        if keeper is None or not is_alive(int(keeper["pid"]), int(keeper["start"])):
            return None
        return int(keeper["pid"])

    def may_not_start(self, lease: str) -> bool:
        """Decide, as an agent that came back, that what was about to start never does.

        Returns
        -------
        bool
            Whether that is so; otherwise its keeper was first, and :meth:`look` sees the rest.
        """
        directory = self.of(lease)
        if not directory.joinpath(SPEC).exists():
            # No keeper was begun, whoever took the turn.
            return True
        turn = directory.joinpath(TURN)
        # It may have been an agent that came back, and ended before it could say so.
        return create_file(turn, _AGENT) or read_small_file(turn) == _AGENT

    def _left_over(self, lease: str) -> list[int]:
        """Return what is left of a part without a keeper, by a mark that all of it inherits."""
        marked = with_variable(CONTROL_DIRECTORY_VARIABLE, str(self.control(lease)))
        if self._cgroup is None:
            return marked
        return sorted({*marked, *self._cgroup.members(lease)})

    def members(self, lease: str) -> list[int]:
        """Return all living processes of a part."""
        keeper = self._keeper(lease)
        return self._left_over(lease) if keeper is None else below(keeper)

    def named(self, lease: str) -> tuple[str, ...]:
        """Name what is left of a part, for people."""
        members = self.members(lease)
        names = [f"process {pid} ({name_of(pid)})" for pid in members[:NAMED_MOST]]
        more = len(members) - NAMED_MOST
        return (*names, f"and {more} more") if more > 0 else tuple(names)

    def started_ms(self, lease: str) -> int | None:
        """Return when a part was started, in ms since this boot; None: not in this one."""
        begun = read_document(self.of(lease).joinpath(STARTED))
        return None if begun is None or begun["boot"] != boot_id() else int(begun["at_ms"])

    def warn(self, lease: str) -> None:
        """Send SIGUSR1 to the first process of a part, and to no other.

        One that does not catch it would be ended by it: a script, or what is not ready yet and
        will find the file.
        """
        first = read_document(self.of(lease).joinpath(STARTED))
        if first is None:
            return
        pid = int(first["pid"])
        if is_alive(pid, int(first["start"])) and catches(pid, signal.SIGUSR1):
            send([pid], signal.SIGUSR1)

    def terminate(self, lease: str) -> None:
        """Send SIGTERM to all that is left of a part."""
        keeper = self._keeper(lease)
        if keeper is not None:
            terminate_below(keeper)
        else:
            send(self._left_over(lease), signal.SIGTERM)

    def kill(self, lease: str) -> None:
        """Send SIGKILL to all that is left of a part."""
        if self._cgroup is not None:
            self._cgroup.kill(lease)
        keeper = self._keeper(lease)
        if keeper is not None:
            kill_below(keeper)
        else:
            send(self._left_over(lease), signal.SIGKILL)

    def forget(self, lease: str) -> None:
        """Remove the directory of a part that is over."""
        self._calm.forget(lease)
        if self._cgroup is not None:
            self._cgroup.remove(lease)
        with suppress(OSError):
            shutil.rmtree(self.of(lease))
