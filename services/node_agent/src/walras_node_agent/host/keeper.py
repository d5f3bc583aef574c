"""The keeper of one part: starts its process, takes its orphans, ends all of it without an agent.

Run as ``python -m walras_node_agent.host.keeper DIRECTORY``. It outlives the agent that started it,
so that an agent that comes back finds everything as it was. It ends by itself when nothing is left
below it. Where no agent has given a sign of life for ``orphan_ms``, it kills all below it.

It is the subreaper of what it starts: a process whose parent ends becomes the keeper's child. Its
own end takes the job's first process with it.

Files in DIRECTORY, each written once: ``spec.json`` by the agent; ``turn`` by whoever is first:
the keeper before it starts the job, or an agent that decides that it must not start any more;
``keeper.json``, then ``started.json`` or ``failed.json``, ``exit.json`` where the first process
ended before all others, and ``gone.json``.
"""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from walras_node_agent.host.beat import last_beat_ms
from walras_node_agent.host.files import (
    create_file,
    fill_reserved,
    read_document,
    reserve_file,
    write_document,
)
from walras_node_agent.host.machine import boot_id, boottime_ms, started
from walras_node_agent.host.process_tree import kill_below

SPEC: Final = "spec.json"
TURN: Final = "turn"
KEEPER: Final = "keeper.json"
STARTED: Final = "started.json"
FAILED: Final = "failed.json"
EXIT: Final = "exit.json"
GONE: Final = "gone.json"
OUTPUT: Final = "output.log"
LOOK_S: Final = 1
"""How often it looks for a sign of life."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


class Keeper:
    """One keeper; ``directory`` is the part's own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        spec = read_document(directory.joinpath(SPEC))
        if spec is None:
            raise SystemExit(f"{directory.joinpath(SPEC)}: not there, or not readable")
        self._spec: dict[str, Any] = spec
        self._beat = Path(spec["beat"])
        self._seen_ms = boottime_ms()
        self._main: subprocess.Popen[bytes] | None = None
        self._said_exit = False
        self._libc = ctypes.CDLL(None, use_errno=True)

    def run(self) -> None:
        """Start the job, and stay until nothing of it is left."""
        pid = os.getpid()
        self._write(KEEPER, {"pid": pid, "start": started(pid)})
        if not create_file(self._directory.joinpath(TURN), b"keeper\n"):
            return
        if self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            self._write(FAILED, {"error": "the kernel has no subreapers"})
            return
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            # Handlers, not SIG_IGN: the job must not inherit that.
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        if not self._start():
            return
        orphaned = False
        while self._reap():
            signal.sigtimedwait({signal.SIGCHLD}, LOOK_S)
            if self._is_orphaned():
                orphaned = True
                kill_below(pid)
        assert self._main is not None
        code, at_ms = self._main.returncode, boottime_ms()
        end = {"code": code, "at_ms": at_ms, "boot": boot_id(), "orphaned": orphaned}
        self._fill(GONE, end)

    def _start(self) -> bool:
        spec = self._spec
        # How the job ended is told even if it fills the disk.
        for name in (EXIT, GONE):
            reserve_file(self._directory.joinpath(name))
        try:
            with self._directory.joinpath(OUTPUT).open("ab") as output:
                self._main = subprocess.Popen(
                    spec["command"],
                    cwd=spec["directory"],
                    env=spec["environment"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    preexec_fn=self._in_child,  # noqa: PLW1509 - it has no other thread
                )
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            self._write(FAILED, {"error": f"{spec['command'][0]}: {error}"})
            return False
        main = self._main.pid
        at_ms = boottime_ms()
        begun = {"pid": main, "start": started(main), "at_ms": at_ms, "boot": boot_id()}
        self._write(STARTED, begun)
        return True

    def _in_child(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        cgroup = self._spec.get("cgroup")
        if cgroup is not None:
            Path(cgroup, "cgroup.procs").write_text("0", "ascii")

    def _reap(self) -> bool:
        """Take the ends of children; return whether any child is left."""
        assert self._main is not None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == self._main.pid:
                self._main.returncode = os.waitstatus_to_exitcode(status)
            elif pid == 0:
                if self._main.returncode is not None and not self._said_exit:
                    self._said_exit = True
                    self._fill(EXIT, {"code": self._main.returncode})
                return True

    def _is_orphaned(self) -> bool:
        beat_ms = last_beat_ms(self._beat)
        if beat_ms is not None:
            self._seen_ms = max(self._seen_ms, beat_ms)
        silent_ms = boottime_ms() - self._seen_ms
        return silent_ms >= int(self._spec["orphan_ms"])

    def _write(self, name: str, document: dict[str, Any]) -> None:
        write_document(self._directory.joinpath(name), document)

    def _fill(self, name: str, document: dict[str, Any]) -> None:
        fill_reserved(self._directory.joinpath(name), document)


if __name__ == "__main__":
    Keeper(Path(sys.argv[1])).run()
