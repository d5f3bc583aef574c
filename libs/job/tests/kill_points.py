"""Kills a process at every point of a save, and says what was left each time.

Run as a program with `lines` or `opcodes` and a directory: it prints one JSON line per point. A
point is a line, or an operation, of the package, counted by a trace function in a forked child,
which sends SIGKILL to itself there: no cleanup of any kind runs. The last line is of a child that
was not killed.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import walras_job
from walras_job import Checkpoint

PACKAGE = str(Path(walras_job.__file__).parent)
OLD, NEW = b"old" * 50, b"new" * 700_000
"""The new one is longer than a chunk, so that it is written in several calls."""


def save_killed_at(point: int, by_opcodes: bool, directory: Path) -> bool:
    """Save in a child that is killed at a point; whether it was."""
    child = os.fork()
    if child == 0:
        try:
            sys.settrace(_Killer(point, by_opcodes).begin)
            Checkpoint(directory, attempt=1).save(NEW, step=2)
        finally:
            sys.settrace(None)
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


class _Killer:
    def __init__(self, point: int, by_opcodes: bool) -> None:
        self.left = point
        self.by_opcodes = by_opcodes

    def begin(self, frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes = self.by_opcodes
        return self.count

    def count(self, frame: FrameType, event: str, argument: Any) -> Any:
        del frame, event, argument
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.count


def main(by_opcodes: bool, root: Path) -> None:
    point, killed = 0, True
    while killed:
        point += 1
        directory = root / str(point)
        Checkpoint(directory, attempt=0).save(OLD, step=1)
        killed = save_killed_at(point, by_opcodes, directory)
        # As whoever comes next finds it, before anything is swept.
        left = sorted(path.name for path in directory.iterdir())
        after = Checkpoint(directory, attempt=1)
        latest = after.latest()
        payload = None if latest is None else latest.read()
        what = "old" if payload == OLD else "new" if payload == NEW else "else"
        whole = after.save(OLD, step=3) == after.latest()
        swept = not any(path.name.endswith(".tmp") for path in directory.iterdir())
        torn = any(name.endswith(".tmp") for name in left)
        sys.stdout.write(json.dumps([killed, what, whole, swept, torn]) + "\n")
        shutil.rmtree(directory)


if __name__ == "__main__":
    main(sys.argv[1] == "opcodes", Path(sys.argv[2]))
