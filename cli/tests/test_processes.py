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
