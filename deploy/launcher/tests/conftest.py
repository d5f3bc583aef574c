"""The launcher's own fixtures, and what its tests poll with."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

# Named here too, so that these tests run where the plugin itself is not loaded.
from walras_launcher.pytest_plugin import docker_engine, kafka_broker, own_broker, own_redis

__all__ = ["docker_engine", "kafka_broker", "own_broker", "own_redis"]


def _gone(pid: int) -> bool:
    """A dead process is gone, also while nobody has reaped it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in {"Z", "X"}


@pytest.fixture
def gone() -> Callable[[int], bool]:
    return _gone


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], bool]:
    def poll(condition: Callable[[], bool], within_s: float = 20.0) -> bool:
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    return poll


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write an executable into a directory of its own, to stand alone on a PATH."""

    def write(name: str, body: str) -> Path:
        directory = tmp_path / "bin"
        directory.mkdir(exist_ok=True)
        path = directory / name
        path.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
        path.chmod(0o755)
        return directory

    return write
