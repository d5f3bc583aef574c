"""Starts the services of a run by forking one process that has already imported them.

Importing takes each service longer than anything else at its start, and on two cores eight of them
wait for one another. The zygote imports once; a fork of it is a process of its own, with its own
environment, log, process group and clients. It holds no thread, loop or connection when it forks.

It reads commands from stdin and tells events on stdout, one JSON object a line. When its stdin
ends, because its parent is gone, it kills what it started and ends.
"""

import ctypes
import gc
import json
import os
import select
import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, BinaryIO, NoReturn

PR_SET_PDEATHSIG = 1
KILLED_WITH_PARENT = 113


def tell(out: BinaryIO, **event: Any) -> None:
    """Write one event."""
    out.write(json.dumps(event).encode() + b"\n")
    out.flush()


def entry(module: str) -> Any:
    """Return what ``python -m module`` would run: the package's ``__main__``, or the module."""
    spec = find_spec(module)
    package = spec is not None and spec.submodule_search_locations is not None
    return import_module(f"{module}.__main__" if package else module)


def become(command: dict[str, Any], parent: int) -> NoReturn:
    """Turn a fresh fork into the service that the command names; never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(KILLED_WITH_PARENT)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        null = os.open(os.devnull, os.O_RDONLY)
        log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, 64)
        os.environ.clear()
        os.environ.update(command["environment"])
        os.nice(command["nice"])
        sys.argv = [command["module"]]
        entry(command["module"]).main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - the last frame of the process: say what broke, then end
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Import the modules named as arguments, then fork on command until stdin ends."""
    modules = sys.argv[1:]
    for module in modules:
        entry(module)
    gc.collect()
    gc.freeze()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # A Ctrl-C of the terminal does not come here (the group is another one), but whoever signals
    # this process by hand must not take the services with it: the parent stops them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children: dict[int, int] = {}
    out, commands = sys.stdout.buffer, b""
    tell(out, event="ready")
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 512)
            reap(children, out)
        if 0 in ready:
            data = os.read(0, 65_536)
            if not data:
                break
            commands += data
            *lines, commands = commands.split(b"\n")
            for line in lines:
                obey(json.loads(line), children, out)
    for pid in sorted(children.values()):
        os.kill(pid, signal.SIGKILL)


def obey(command: dict[str, Any], children: dict[int, int], out: BinaryIO) -> None:
    """Start a service, or send a signal to one that has not ended.

    ``children`` are the process ids of those, by the number that the parent gave their start.
    """
    if command["do"] == "signal":
        if command["id"] in children:
            os.kill(children[command["id"]], command["number"])
        return
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        become(command, parent)
    children[command["id"]] = pid
    tell(out, event="started", pid=pid, id=command["id"])


def reap(children: dict[int, int], out: BinaryIO) -> None:
    """Tell the exit code of every child that has ended; a signal's is negative."""
    for number, pid in sorted(children.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del children[number]
            tell(out, event="ended", id=number, code=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
