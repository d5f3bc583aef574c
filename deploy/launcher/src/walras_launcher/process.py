"""Child processes that die with their parent, whichever thread started them."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STOP_GRACE_S = 15.0

# Runs in the child before the server: asks the kernel for SIGKILL at the parent's death, then looks
# whether the parent died before that request, and becomes the server. A pre-exec hook would do the
# same, but runs Python between fork and exec, which can deadlock in a process with threads.
_BECOME = """
import os, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        os._exit(113)
os.execvpe(sys.argv[2], sys.argv[2:], os.environ)
"""


class _Spawner:
    """One thread that starts every child and lives as long as this process.

    The kernel sends the parent-death signal when the *thread* that started the child ends. A
    thread that never ends makes ``start`` safe from any thread, also from a short-lived pool.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="walras-spawner", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._work.get()()

    def popen(self, start: Callable[[], "subprocess.Popen[bytes]"]) -> "subprocess.Popen[bytes]":
        """Run ``start`` in the long-lived thread and return or raise what it does."""
        answer: queue.SimpleQueue[subprocess.Popen[bytes] | OSError] = queue.SimpleQueue()

        def job() -> None:
            try:
                answer.put(start())
            except OSError as error:
                answer.put(error)

        self._work.put(job)
        result = answer.get()
        if isinstance(result, OSError):
            raise result
        return result


_lock = threading.Lock()
_spawner: _Spawner | None = None


def _forget_after_fork() -> None:
    """Drop what a forked child inherited: neither the thread nor a held lock is its own."""
    global _lock, _spawner  # noqa: PLW0603 -- one spawner per process is the point
    _lock = threading.Lock()
    _spawner = None


os.register_at_fork(after_in_child=_forget_after_fork)


def _this_process() -> _Spawner:
    global _spawner  # noqa: PLW0603 -- one spawner per process is the point
    with _lock:
        if _spawner is None:
            _spawner = _Spawner()
        return _spawner


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    directory: Path,
    environment: Mapping[str, str] | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a server that dies with this process, in a process group of its own.

    Parameters
    ----------
    command
        Program and arguments; the program keeps the process id of the returned handle.
    log
        Standard output and error are appended here.
    directory
        Working directory of the server.
    environment
        Full environment of the server; this process's own if left out.

    Raises
    ------
    OSError
        The interpreter that starts the server could not be run, or the log not be opened.
    """
    line = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *command]

    def start() -> "subprocess.Popen[bytes]":
        with log.open("ab") as sink:
            return subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=None if environment is None else dict(environment),
                process_group=0,
            )

    return _this_process().popen(start)


def terminate(process: "subprocess.Popen[bytes]", grace_s: float = STOP_GRACE_S) -> int:
    """Ask a child to stop, force it after the grace time, and return its exit code.

    Parameters
    ----------
    process
        A child of :func:`spawn`.
    grace_s
        Seconds between SIGTERM and SIGKILL.
    """
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(grace_s)
        except subprocess.TimeoutExpired:
            return kill(process)
    return process.returncode


def kill(process: "subprocess.Popen[bytes]") -> int:
    """Kill a child and its process group without warning, and return its exit code."""
    if process.poll() is None:
        # The group has the child's id; the child is not reaped yet, so the id is still its own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
    return process.wait()
