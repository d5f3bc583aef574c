"""A job of a run: ``job.py BEHAVIOUR SAVE_MS``. It writes down when it lives, and needs no library.

Its own file of evidence, named by lease, node and process, begins with `start`, team, job, and
whether it is the first process of its part, has a `step` every few milliseconds, each with the time
since boot in ms, and `end` where it ends by itself. So what is killed has lived at least until its
last step. While it lives it holds its devices' memory.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

CONTROL = Path(os.environ["WALRAS_CONTROL_DIR"])
LEASE, NODE = os.environ["WALRAS_LEASE"], os.environ["WALRAS_NODE"]
STEP_S = 0.025
CRASHES_MS, FINISHES_MS = 1_200, 2_500


def boot_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class Evidence:
    """The file of this process, one `write` a line; nothing is kept back."""

    def __init__(self, what: str) -> None:
        name = f"{LEASE}@{NODE}@{os.getpid()}"
        path = Path(os.environ["CHAOS_EVIDENCE"]) / name
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        team, job = os.environ["WALRAS_TEAM"], os.environ["WALRAS_JOB"]
        self.say(f"start {boot_ms()} {team} {job} {what}")

    def say(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())

    def step(self) -> None:
        self.say(f"step {boot_ms()}")
        time.sleep(STEP_S)

    def end(self, code: int) -> None:
        self.say(f"end {boot_ms()}")
        sys.exit(code)


def hold_devices() -> None:
    root = Path(os.environ["CHAOS_DEVICES"])
    for device in os.environ["WALRAS_DEVICES"].split(","):
        (root / NODE / "devices" / device / str(os.getpid())).write_text("", "utf-8")


def session_in(name: str) -> str | None:
    try:
        session: str = json.loads((CONTROL / name).read_text("utf-8"))["session"]
    except FileNotFoundError:
        return None
    return session


def asked_by() -> str | None:
    """Return the drain that wants it to leave, unless that was called off."""
    session = session_in("warning.json")
    return None if session == session_in("cancel.json") else session


def save(evidence: Evidence, save_ms: int) -> None:
    """Wait for a warning, take some time to save, and say so; a cancel calls it off."""
    while True:
        while (session := asked_by()) is None:
            evidence.step()
        until = boot_ms() + save_ms
        while boot_ms() < until and asked_by() == session:
            evidence.step()
        if asked_by() == session:
            break
    beside = CONTROL / f".done.{os.getpid()}"
    beside.write_text(json.dumps({"session": session, "step": 1, "checkpoint": None}), "utf-8")
    beside.replace(CONTROL / "done.json")


def last(evidence: Evidence, for_ms: int, code: int) -> None:
    until = boot_ms() + for_ms
    while boot_ms() < until:
        evidence.step()
    evidence.end(code)


def main(behaviour: str, save_ms: int) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    is_child = behaviour == "family" and os.fork() == 0
    if is_child:
        # It outlives its parent, holds the devices, and ignores SIGTERM.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hold_devices()
    evidence = Evidence("child" if is_child else "first")
    if behaviour == "polite":
        save(evidence, save_ms)
        evidence.end(0)
    if behaviour == "stays":
        save(evidence, save_ms)
    if behaviour == "crashes":
        last(evidence, CRASHES_MS + save_ms, 1)
    if behaviour == "finishes":
        last(evidence, FINISHES_MS + save_ms, 0)
    while True:
        evidence.step()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
