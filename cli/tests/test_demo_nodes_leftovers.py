"""What agents left running is ended by process id, and nothing else is."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from libs.job.tests.agent_side import eventually, is_gone
from walras.demo_nodes.leftovers import end_leftovers
from walras_job.protocol import CONTROL_DIRECTORY_VARIABLE
from walras_node_agent.host.machine import boottime_ms, started

PARENT = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(600)"
SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


def kept(state: Path, lease: str) -> tuple["subprocess.Popen[bytes]", int]:
    """Start a keeper with a job that started another process; return it and the job's pid."""
    part = state / "parts" / lease
    (part / "control").mkdir(parents=True)
    beat = state / "beat"
    beat.write_text(json.dumps({"at_ms": boottime_ms()}), "utf-8")
    variables = {**os.environ, CONTROL_DIRECTORY_VARIABLE: str(part / "control")}
    spec = {
        "command": [sys.executable, "-c", PARENT, *SLEEP],
        "directory": str(part),
        "environment": variables,
        "beat": str(beat),
        "orphan_ms": 600_000,
    }
    (part / "spec.json").write_text(json.dumps(spec), "utf-8")
    keeper = subprocess.Popen(
        [sys.executable, "-m", "walras_node_agent.host.keeper", str(part)], start_new_session=True
    )
    assert eventually((part / "started.json").exists)
    return keeper, int(json.loads((part / "started.json").read_text("utf-8"))["pid"])


def test_keepers_and_all_that_their_jobs_started_are_ended(tmp_path: Path) -> None:
    keeper, first = kept(tmp_path, "l.1")
    bystander = subprocess.Popen(SLEEP)
    try:
        ended = end_leftovers([tmp_path, tmp_path / "no-such-node"])
        assert keeper.pid in ended
        keeper.wait(30)
        assert eventually(lambda: is_gone(first))
        assert end_leftovers([tmp_path]) == []
        bystander.terminate()
        assert bystander.wait(30) == -signal.SIGTERM
    finally:
        bystander.kill()
        bystander.wait()


def test_a_job_whose_keeper_is_gone_already_is_found_by_its_mark(tmp_path: Path) -> None:
    part = tmp_path / "parts" / "l.1"
    part.mkdir(parents=True)
    environment = {**os.environ, CONTROL_DIRECTORY_VARIABLE: str(part / "control")}
    orphan = subprocess.Popen(SLEEP, env=environment)
    # Its environment is another's until the program is loaded.
    marked = Path(f"/proc/{orphan.pid}/environ")
    assert eventually(lambda: str(part).encode() in marked.read_bytes())
    assert end_leftovers([tmp_path]) == [orphan.pid]
    assert orphan.wait(30) == -9


def test_a_process_id_that_has_changed_hands_is_left_alone(tmp_path: Path) -> None:
    part = tmp_path / "parts" / "l.1"
    part.mkdir(parents=True)
    other = subprocess.Popen(SLEEP)
    try:
        start = started(other.pid)
        assert start is not None
        stale = json.dumps({"pid": other.pid, "start": start - 1})
        for name in ("keeper.json", "started.json"):
            (part / name).write_text(stale, "utf-8")
        assert end_leftovers([tmp_path]) == []
        # Killed, it would not end by what is sent now.
        other.terminate()
        assert other.wait(30) == -signal.SIGTERM
    finally:
        other.kill()
        other.wait()
