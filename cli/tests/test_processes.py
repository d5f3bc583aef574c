"""The supervisor and its zygote, with small services of the test's own."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import walras.processes
from walras.processes import ProcessError, Service, Supervisor

SERVICES = {
    "svc_steady": """
import os, sys, time
def main():
    print("hello", os.environ["COLOUR"], sys.argv[0], flush=True)
    while True:
        time.sleep(0.05)
""",
    "svc_unusable": """
import sys
def main():
    sys.stderr.write("settings are not usable: COLOUR\\n")
    sys.exit(2)
""",
    "svc_ends": """
import sys
def main():
    sys.stderr.write("the broker does not answer\\n")
    sys.exit(1)
""",
    "svc_deaf": """
import signal, time
def main():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("deaf", flush=True)
    while True:
        time.sleep(0.05)
""",
    "svc_broken": "raise ImportError('no such thing')",
}

ZYGOTE_OF_ONE_PID = """
import json, sys
def tell(**event):
    print(json.dumps(event), flush=True)
running = {}
for line in sys.stdin:
    command = json.loads(line)
    if command["do"] == "start":
        running[command["id"]] = command["module"]
        tell(event="started", id=command["id"], pid=4242)
    elif command["id"] in running:
        del running[command["id"]]
        tell(event="ended", id=command["id"], code=-command["number"])
"""

Make = Callable[..., Supervisor]


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    for name, body in SERVICES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "__main__.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made: list[Supervisor] = []

    def supervise(*modules: str) -> Supervisor:
        services = [Service(m, m, {"COLOUR": "red"}) for m in modules]
        supervisor = Supervisor(services, {}, tmp_path / "logs")
        made.append(supervisor)
        return supervisor

    yield supervise
    for supervisor in made:
        supervisor.stop()


def test_a_service_has_an_environment_and_a_log_of_its_own(make: Make) -> None:
    supervisor = make("svc_steady")
    supervisor.start()
    eventually(lambda: supervisor.tail("svc_steady") == "hello red svc_steady")
    assert supervisor.pid("svc_steady") != os.getpid()


def test_a_killed_service_is_started_again(make: Make) -> None:
    supervisor = make("svc_steady")
    supervisor.start()
    first = supervisor.pid("svc_steady")
    supervisor.kill("svc_steady")
    assert not alive(first)
    supervisor.look()
    assert supervisor.exits == [("svc_steady", -9)]
    assert alive(supervisor.pid("svc_steady"))
    assert supervisor.pid("svc_steady") != first


def test_unusable_settings_end_the_run_with_what_the_service_said(make: Make) -> None:
    supervisor = make("svc_unusable")
    supervisor.start()

    def looked_in_vain() -> bool:
        try:
            supervisor.look()
        except ProcessError as error:
            return "settings are not usable: COLOUR" in str(error)
        return False

    eventually(looked_in_vain)


def test_what_ends_again_is_given_time_before_it_is_started_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that starts again needs longer than a service that does not find it."""
    monkeypatch.setattr(walras.processes, "BACK_OFF_S", 3_600.0)
    monkeypatch.setattr(walras.processes, "BACK_OFF_MOST_S", 3_600.0)
    supervisor = make("svc_ends")
    supervisor.start()

    def exits() -> int:
        supervisor.look()
        return len(supervisor.exits)

    eventually(lambda: exits() == 2)
    waiting = supervisor.pid("svc_ends")
    for _ in range(20):
        supervisor.look()
    supervisor.kill("svc_ends")
    assert (supervisor.pid("svc_ends"), exits()) == (waiting, 2)


def test_what_ends_too_often_ends_the_run(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walras.processes, "BACK_OFF_S", 0.0)
    supervisor = make("svc_ends")
    supervisor.start()
    said = ""

    def looked_in_vain() -> bool:
        nonlocal said
        try:
            supervisor.look()
        except ProcessError as error:
            said = str(error)
        return bool(said)

    eventually(looked_in_vain)
    assert "the broker does not answer" in said
    assert supervisor.exits == [("svc_ends", 1)] * (walras.processes.MOST_RESTARTS + 1)


def test_what_does_not_stop_is_killed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walras.processes, "STOP_GRACE_S", 0.3)
    supervisor = make("svc_deaf", "svc_steady")
    supervisor.start()
    eventually(lambda: supervisor.tail("svc_deaf") == "deaf")
    pids = [supervisor.pid(name) for name in supervisor.names()]
    supervisor.stop()
    eventually(lambda: not any(alive(pid) for pid in pids))


def test_a_service_that_cannot_be_imported_is_named_with_its_log(make: Make) -> None:
    supervisor = make("svc_broken")
    with pytest.raises(ProcessError, match=r"zygote\.log"):
        supervisor.start()


def test_a_process_id_given_again_is_not_taken_for_the_one_that_ended(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process ids are few; a run of days starts more services than that."""
    (tmp_path / "zygote_of_one_pid.py").write_text(ZYGOTE_OF_ONE_PID)
    monkeypatch.setattr(walras.processes, "ZYGOTE", "zygote_of_one_pid")
    supervisor = make("svc_steady", "svc_deaf")
    supervisor.start()
    supervisor.kill("svc_steady")
    for _ in range(3):
        supervisor.look()
    assert supervisor.exits == [("svc_steady", -9)]
    supervisor.kill("svc_deaf")
    supervisor.look()
    assert supervisor.exits == [("svc_steady", -9), ("svc_deaf", -9)]
