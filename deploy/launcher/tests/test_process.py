import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from walras_launcher.process import _BECOME, kill, spawn, terminate

Eventually = Callable[[Callable[[], bool]], bool]
Gone = Callable[[int], bool]

SLEEP = ["sleep", "600"]

BROKER_HELPER = """
import sys, threading
from walras_launcher.kafka import start_kafka

brokers = []
thread = threading.Thread(target=lambda: brokers.append(start_kafka()))
thread.start()
thread.join()
print(brokers[0].pid, brokers[0].directory, flush=True)
sys.stdin.read()
"""

REDIS_HELPER = """
import sys
from walras_launcher.redis import start_redis

server = start_redis()
print(server.pid, server.directory, flush=True)
sys.stdin.read()
"""


def _helper(program: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.broker
@pytest.mark.parametrize("program", [BROKER_HELPER, REDIS_HELPER], ids=["kafka", "redis"])
def test_a_server_dies_with_a_killed_parent_and_the_next_owner_sweeps_its_directory(
    program: str, gone: Gone, eventually: Eventually
) -> None:
    with _helper(program) as helper:
        assert helper.stdout is not None
        pid, directory = helper.stdout.readline().split()
        assert not gone(int(pid))
        assert Path(directory).is_dir()
        helper.send_signal(signal.SIGKILL)
        helper.wait()
    assert eventually(lambda: gone(int(pid)))
    with _helper(REDIS_HELPER) as successor:
        assert successor.stdout is not None
        own = successor.stdout.readline().split()[1]
        assert not Path(directory).exists()
        assert Path(own).is_dir()
        successor.communicate("")
    assert not Path(own).exists()


def test_an_orderly_exit_stops_the_server_and_removes_its_directory(gone: Gone) -> None:
    with _helper(REDIS_HELPER) as helper:
        assert helper.stdout is not None
        pid, directory = helper.stdout.readline().split()
        helper.communicate("")
    assert helper.returncode == 0
    assert gone(int(pid))
    assert not Path(directory).exists()


def test_a_child_whose_parent_is_already_dead_never_becomes_the_server(tmp_path: Path) -> None:
    mark = tmp_path / "became"
    line = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getppid()), "touch", str(mark)]
    assert subprocess.run(line, check=False).returncode == 113
    assert not mark.exists()


def test_the_right_parent_lets_the_child_become_the_server(tmp_path: Path) -> None:
    mark = tmp_path / "became"
    line = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), "touch", str(mark)]
    assert subprocess.run(line, check=False).returncode == 0
    assert mark.exists()


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    children: list[subprocess.Popen[bytes]] = []
    for _ in range(3):
        thread = threading.Thread(
            target=lambda: children.append(
                spawn(["sh", "-c", "read line"], log=tmp_path / "log", directory=tmp_path)
            )
        )
        thread.start()
        thread.join()
    child = spawn(SLEEP, log=tmp_path / "log", directory=tmp_path)
    assert child.poll() is None
    assert terminate(child) == -signal.SIGTERM
    for other in children:
        # stdin is empty, so `read` ends with 1; the parent-death signal would show as -9.
        assert other.wait() == 1


def test_a_child_that_ignores_sigterm_is_killed_with_its_group_after_the_grace(
    tmp_path: Path, gone: Gone, eventually: Eventually
) -> None:
    log = tmp_path / "log"
    body = "trap '' TERM; sleep 600 & echo $!; while :; do wait; done"
    child = spawn(["sh", "-c", body], log=log, directory=tmp_path)
    assert eventually(lambda: log.read_text("utf-8").strip().isdigit())
    grandchild = int(log.read_text("utf-8"))
    assert terminate(child, grace_s=0.2) == -signal.SIGKILL
    assert eventually(lambda: gone(grandchild))
    assert kill(child) == -signal.SIGKILL


def test_a_program_that_is_not_there_shows_in_exit_code_and_log(tmp_path: Path) -> None:
    child = spawn(["walras-no-such-program"], log=tmp_path / "log", directory=tmp_path)
    assert child.wait() == 1
    assert "FileNotFoundError" in (tmp_path / "log").read_text("utf-8")
