"""A job for tests: ``job.py BEHAVIOUR``. It knows the files of the contract, not the library.

It writes what it does into ``log`` in its checkpoint directory, and holds the memory of its devices
(a file named by its pid) where the variable TEST_DEVICES says where they are.
"""

import http.server
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

CONTROL = Path(os.environ["WALRAS_CONTROL_DIR"])
CHECKPOINTS = Path(os.environ["WALRAS_CHECKPOINT_DIR"])
PAUSE_S = 0.02


def say(text: str) -> None:
    with (CHECKPOINTS / "log").open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {text}\n")


def hold_devices() -> None:
    root = os.environ.get("TEST_DEVICES")
    if root:
        for device in os.environ["WALRAS_DEVICES"].split(","):
            (Path(root) / device / str(os.getpid())).write_text("", "utf-8")


def read(name: str) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads((CONTROL / name).read_text("utf-8"))
    except FileNotFoundError:
        return None
    return document


def write(name: str, document: dict[str, Any]) -> None:
    beside = CONTROL / f".{name}.{os.getpid()}"
    beside.write_text(json.dumps(document), "utf-8")
    beside.replace(CONTROL / name)


def warned() -> str | None:
    """The session that wants it to leave, unless that was called off."""
    warning, cancel = read("warning.json"), read("cancel.json")
    if warning is None:
        return None
    session: str = warning["session"]
    called_off = cancel is not None and cancel["session"] == session
    return None if called_off else session


def forever() -> None:
    while True:
        time.sleep(PAUSE_S)


def ignore(*numbers: signal.Signals) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def quits() -> None:
    code = int(os.environ.get("TEST_CODE", "0"))
    while not (CHECKPOINTS / "quit").exists():
        time.sleep(PAUSE_S)
    sys.exit(code)


def polite() -> None:
    """Saves when it is warned, by file, and ends."""
    ignore(signal.SIGUSR1)
    while (session := warned()) is None:
        time.sleep(PAUSE_S)
    (CHECKPOINTS / "saved").write_text(session, "utf-8")
    write("done.json", {"session": session, "step": 1, "checkpoint": None})
    say("saved")


def signalled() -> None:
    """Saves when SIGUSR1 comes, says so, and stays."""

    def note(_number: int, _frame: FrameType | None) -> None:
        say("SIGUSR1")

    signal.signal(signal.SIGUSR1, note)
    while (session := warned()) is None:
        time.sleep(PAUSE_S)
    write("progress.json", {"session": session, "text": "writing shard 3 of 8"})
    while not (CHECKPOINTS / "save").exists():
        time.sleep(PAUSE_S)
    write("done.json", {"session": session, "step": None, "checkpoint": None})
    forever()


def stubborn() -> None:
    """Ends only when it is killed."""
    ignore(signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    forever()


def uncaught() -> None:
    """Does nothing about any signal."""
    forever()


def deaf() -> None:
    """Takes no warning; ends at SIGTERM as any process does."""
    ignore(signal.SIGUSR1)
    forever()


def family() -> None:
    """Has children and grandchildren that ignore SIGTERM; ends at SIGTERM itself."""
    ignore(signal.SIGUSR1)
    for _ in range(2):
        if os.fork() == 0:
            os.fork()
            ignore(signal.SIGTERM)
            say("child")
            forever()
    forever()


def escapes() -> None:
    """Leaves a process in a session of its own whose parents are gone, then goes on."""
    ignore(signal.SIGUSR1)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ignore(signal.SIGTERM)
            hold_devices()
            say("escaped")
            forever()
        os._exit(0)
    os.wait()
    if os.environ.get("TEST_LEAVES"):
        return
    forever()


def fills() -> None:
    """Saves more than its disk takes, again and again, and never says that it has."""
    ignore(signal.SIGUSR1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    while warned() is None:
        time.sleep(PAUSE_S)
    while True:
        try:
            (CHECKPOINTS / "shard").write_bytes(b"x" * (2 << 20))
        except OSError as error:
            say(f"no room: {error.errno}")
        time.sleep(PAUSE_S)


def hooks() -> None:
    """Is warned at an address; answers with the status in TEST_STATUS, or hangs at 0."""
    status = int(os.environ["TEST_STATUS"])

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            session = json.loads(self.rfile.read(length))["session"]
            say(f"asked {session}")
            if status == 0:
                forever()
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["TEST_PORT"])), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say("listening")
    forever()


def grandchild() -> None:
    """Starts a shell that starts a sleeper, and waits for it."""
    ignore(signal.SIGUSR1)
    subprocess.run(["sh", "-c", "sleep 3600 & wait"], check=False)


BEHAVIOURS = (
    *(uncaught, quits, polite, signalled, stubborn, deaf),
    *(family, escapes, fills, hooks, grandchild),
)

if __name__ == "__main__":
    hold_devices()
    say("started")
    {each.__name__: each for each in BEHAVIOURS}[sys.argv[1]]()
