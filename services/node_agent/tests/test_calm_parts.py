"""A part that is known to run is not read again until something may have changed."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from walras_node_agent.host import processes as looked_at
from walras_node_agent.host.calm import SETTLED_NS
from walras_node_agent.host.files import read_document, write_document
from walras_node_agent.host.keeper import EXIT, FAILED, GONE, KEEPER, SPEC, STARTED
from walras_node_agent.host.machine import boot_id, started
from walras_node_agent.host.processes import RUNS, Processes, Standing, View
from walras_runtime.clock import wall_ms

LEASE = "l1"
LATER_MS = SETTLED_NS // 1_000_000 + 1_000
ENDS: dict[str, dict[str, Any]] = {
    EXIT: {"code": 3},
    FAILED: {"error": "no such program"},
    GONE: {"code": 0, "at_ms": 5, "boot": boot_id(), "orphaned": False},
}


@pytest.fixture
def keeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that stands for a keeper; nobody here reads what it is."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def made(directory: Path, pid: int) -> Path:
    """The directory of a part that runs."""
    part = directory / "parts" / LEASE
    part.mkdir(parents=True)
    write_document(part / SPEC, {})
    write_document(part / KEEPER, {"pid": pid, "start": started(pid)})
    write_document(part / STARTED, {"pid": pid, "start": 1, "at_ms": 1, "boot": boot_id()})
    return part


def at(directory: Path, ahead_ms: int) -> Processes:
    """Processes whose wall clock is ahead of the file system's, so that all is long past."""
    parts, beat = directory / "parts", directory / "beat"
    return Processes(parts, beat, 60_000, None, wall=lambda: wall_ms() + ahead_ms)


def pass_a_tick(part: Path) -> None:
    """Wait until the file system's clock shows another time than that of the directory."""
    probe = part.parent / "probe"
    changed_ns = part.stat().st_mtime_ns
    while True:
        probe.touch()
        os.utime(probe)
        if probe.stat().st_mtime_ns > changed_ns:
            return


def fresh(directory: Path) -> View:
    return at(directory, 0).look(LEASE)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    read: list[Path] = []

    def counted(path: Path) -> dict[str, Any] | None:
        read.append(path)
        return read_document(path)

    monkeypatch.setattr(looked_at, "read_document", counted)
    return read


def test_a_part_that_runs_is_read_once(
    tmp_path: Path, keeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, keeper.pid)
    processes = at(tmp_path, LATER_MS)
    assert processes.look(LEASE) == RUNS
    read = count_reads(monkeypatch)
    assert [processes.look(LEASE) for _ in range(100)] == [RUNS] * 100
    assert read == []


@pytest.mark.parametrize("ahead_ms", [0, -3_600_000], ids=["just changed", "clock set back"])
def test_a_directory_that_may_change_without_another_time_is_read_each_time(
    tmp_path: Path,
    keeper: "subprocess.Popen[bytes]",
    monkeypatch: pytest.MonkeyPatch,
    ahead_ms: int,
) -> None:
    part = made(tmp_path, keeper.pid)
    now_ms = wall_ms()
    # However long making it took on a busy machine, it has changed only now.
    os.utime(part, ns=(now_ms * 1_000_000, now_ms * 1_000_000))
    processes = Processes(
        tmp_path / "parts", tmp_path / "beat", 60_000, None, wall=lambda: now_ms + ahead_ms
    )
    read = count_reads(monkeypatch)
    for _ in range(3):
        before = len(read)
        assert processes.look(LEASE) == RUNS
        assert len(read) > before


@pytest.mark.parametrize("name", sorted(ENDS))
def test_whatever_becomes_of_a_calm_part_is_seen_with_the_next_look(
    tmp_path: Path, keeper: "subprocess.Popen[bytes]", name: str
) -> None:
    part = made(tmp_path, keeper.pid)
    processes = at(tmp_path, LATER_MS)
    assert processes.look(LEASE) == RUNS
    pass_a_tick(part)
    write_document(part / name, ENDS[name])
    assert processes.look(LEASE) == fresh(tmp_path)
    assert processes.look(LEASE).standing is not Standing.RUNNING


def test_the_end_of_its_keeper_is_seen_though_no_file_says_so(
    tmp_path: Path, keeper: "subprocess.Popen[bytes]"
) -> None:
    made(tmp_path, keeper.pid)
    processes = at(tmp_path, LATER_MS)
    assert processes.look(LEASE) == RUNS
    keeper.kill()
    keeper.wait()
    assert processes.look(LEASE) == fresh(tmp_path)
    assert processes.look(LEASE).standing is Standing.GONE


def test_a_part_without_its_directory_is_not_taken_for_running(
    tmp_path: Path, keeper: "subprocess.Popen[bytes]"
) -> None:
    made(tmp_path, keeper.pid)
    processes = at(tmp_path, LATER_MS)
    assert processes.look(LEASE) == RUNS
    processes.forget(LEASE)
    assert processes.look(LEASE).standing is Standing.PENDING


CHANGES = st.lists(st.sampled_from([*ENDS, STARTED, SPEC, "control/done.json", "look"]), max_size=8)


@given(changes=CHANGES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_a_look_says_what_one_without_a_memory_says(
    tmp_path_factory: pytest.TempPathFactory,
    keeper: "subprocess.Popen[bytes]",
    changes: list[str],
) -> None:
    """Files come and go in any order; removing one is what no keeper does, and is seen too."""
    directory = tmp_path_factory.mktemp("calm")
    part = made(directory, keeper.pid)
    (part / "control").mkdir()
    processes = at(directory, LATER_MS)
    for name in changes:
        if name != "look":
            pass_a_tick(part)
            path = part / name
            if path.exists():
                path.unlink()
            else:
                path.write_text(json.dumps(ENDS.get(name, {})), "utf-8")
        assert processes.look(LEASE) == fresh(directory), changes
