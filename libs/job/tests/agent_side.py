"""The node agent's side of the protocol, and waiting for conditions."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import walras_job
from walras_job.control import ControlDirectory
from walras_job.part import Part
from walras_job.protocol import DrainCancel, DrainDone, DrainProgress, DrainWarning

SOURCES = Path(walras_job.__file__).resolve().parents[1]
SIGNAL_MASKS = {"caught": "SigCgt", "ignored": "SigIgn", "blocked": "SigBlk"}


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def eventually(condition: Callable[[], object], within_s: float = 30.0) -> bool:
    """Poll a condition; False when it did not come true."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class Agent:
    """Warns one part and reads what it says."""

    def __init__(self, directory: Path, checkpoints: Path, attempt: int = 1) -> None:
        directory.mkdir(parents=True)
        self.started: list[subprocess.Popen[str]] = []
        self.control = ControlDirectory(directory)
        self.part = Part(
            *("team-a", "job-1", f"lease-{attempt}", "node-1"),
            attempt=attempt,
            part=0,
            parts=1,
            devices=(0,),
            control_directory=directory,
            checkpoint_directory=checkpoints,
        )

    def environment(self) -> dict[str, str]:
        """Return all variables of a part's process."""
        return {**clean_environment(), **self.part.to_environment()}

    def warn(self, session: str = "s1", within_s: float = 600.0, reason: str = "quota") -> None:
        now = wall_ms()
        self.control.write_warning(DrainWarning(session, reason, now + round(within_s * 1000), now))

    def cancel(self, session: str = "s1") -> None:
        self.control.write_cancel(DrainCancel(session))

    def done(self) -> DrainDone | None:
        return self.control.read_done()

    def progress(self) -> DrainProgress | None:
        return self.control.read_progress()

    def start(self, *words: str, **options: object) -> "subprocess.Popen[str]":
        """Start a program as a part, in a process group of its own."""
        process: subprocess.Popen[str] = subprocess.Popen(
            words,
            env=self.environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            **options,  # type: ignore[call-overload] # what a test needs besides
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """Kill what a failed test left running, and close its pipes."""
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()


def clean_environment() -> dict[str, str]:
    """Return this process's environment outside Walras, with the package importable."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("WALRAS_")}
    return {**ours, "PYTHONPATH": str(SOURCES), "PYTHONUNBUFFERED": "1"}


def python(program: str, *arguments: str) -> list[str]:
    """Return the command that runs a program text."""
    return [sys.executable, "-c", program, *arguments]


def run_python(
    program: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a program text to its end."""
    return run(python(program, *arguments), environment or clean_environment())


def run(
    command: Sequence[str], environment: Mapping[str, str], timeout_s: float = 120.0
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        command,
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def signal_is(how: str, number: int, pid: int) -> bool:
    """Whether a process catches, ignores or blocks a signal, as the kernel has it."""
    name = SIGNAL_MASKS[how]
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii")
    except OSError:
        return False
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith(f"{name}:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def is_gone(pid: int) -> bool:
    """A dead process is gone, also while nobody has reaped it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] in {"Z", "X"}


def launcher(*arguments: str) -> Sequence[str]:
    """Return the command of the launcher."""
    return [sys.executable, "-m", "walras_job", "run", *arguments]
