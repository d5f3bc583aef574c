"""Settings of the agent, what it starts, and what it says to jobs."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from services.node_agent.tests.grants import grant
from walras_contracts.runs import EnvironmentVariable, RunSpec
from walras_node_agent.agent.building import checkpoints_of, passed_of
from walras_node_agent.agent.contract import Answers, answers, warning
from walras_node_agent.agent.launching import launch
from walras_node_agent.agent.settings import AgentSettings
from walras_node_agent.host.cgroups import Cgroup
from walras_node_agent.host.lock import only_agent
from walras_node_agent.host.machine import started
from walras_runtime.settings import SettingsError


def settings(**values: Any) -> AgentSettings:
    given = {"kafka_bootstrap": "b:1", "node": "n1", "state_directory": "state", **values}
    return AgentSettings.read(**given)


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    clean = {k: v for k, v in os.environ.items() if not k.startswith("WALRAS_")}
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [sys.executable, "-m", "walras_node_agent.agent", *arguments],
        env={**clean, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_lists_its_settings_and_checks_them() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    assert "WALRAS_NODE_AGENT_ORPHAN_MS (60000)" in shown.stdout
    good = {
        "WALRAS_KAFKA_BOOTSTRAP": "b:1",
        "WALRAS_NODE_AGENT_NODE": "n1",
        "WALRAS_NODE_AGENT_STATE_DIRECTORY": "state",
    }
    assert run("--check-config", **good).returncode == 0
    bad = run("--check-config", **{**good, "WALRAS_NODE_AGENT_NODE": "a/b"})
    assert bad.returncode == 2
    assert "WALRAS_NODE_AGENT_NODE" in bad.stderr


@pytest.mark.parametrize(
    ("values", "variable"),
    [
        ({"orphan_ms": 90_000}, "WALRAS_NODE_AGENT_ORPHAN_MS"),
        ({"heartbeat_ms": 40_000}, "WALRAS_NODE_AGENT_HEARTBEAT_MS"),
        ({"device_port": "other"}, "WALRAS_NODE_AGENT_DEVICE_PORT"),
        ({"node": ""}, "WALRAS_NODE_AGENT_NODE"),
        ({"poll_ms": 0}, "WALRAS_NODE_AGENT_POLL_MS"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_their_name(
    values: dict[str, Any], variable: str
) -> None:
    with pytest.raises(SettingsError, match=variable):
        settings(**values)


def works(directory: Path, node: str) -> str:
    """Why an agent cannot work in a directory; "" where it can."""
    try:
        with only_agent(directory, node):
            return ""
    except SettingsError as error:
        return str(error)


STARTING = """
import os, sys, time
from pathlib import Path
from walras_node_agent.host.lock import only_agent

with only_agent(Path(sys.argv[1]), "n1"):
    child = os.fork()
    if child > 0:
        print(child, flush=True)
    time.sleep(600)
"""
"""An agent that has forked for a process that it starts, which is not another program's yet."""


def test_a_directory_belongs_to_one_node_and_one_agent_as_long_as_that_lives(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", STARTING, str(tmp_path)]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0)
    try:
        assert agent.stdout is not None
        child = int(agent.stdout.readline())
        assert f"an agent of node n1 (process {agent.pid})" in works(tmp_path, "n1")
        agent.kill()
        agent.wait()
        assert started(child) is not None
        assert "belongs to node n1, not n2" in works(tmp_path, "n2")
        assert works(tmp_path, "n1") == "", "what it was starting is no agent"
    finally:
        os.killpg(agent.pid, signal.SIGKILL)
        agent.communicate()


def test_a_directory_that_is_no_cgroup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no cgroup of version 2"):
        Cgroup(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_jobs_get_what_they_declare_what_is_passed_and_who_they_are() -> None:
    declared = (
        EnvironmentVariable(name="LANG", value="de"),
        EnvironmentVariable(name="WALRAS_TEAM", value="somebody-else"),
    )
    run_spec = RunSpec(command=("train", "--fast"), environment=declared)
    environment = {"PATH": "/bin", "LANG": "C", "SECRET": "x", "WALRAS_KAFKA_BOOTSTRAP": "b:1"}
    passed = passed_of(settings(), environment)
    made = launch(grant(devices=(2, 3), run=run_spec), "control", "shared", passed, {"CUDA": "2,3"})

    assert made is not None
    assert made.command == ("train", "--fast")
    assert dict(made.environment) == {
        "PATH": "/bin",
        "LANG": "de",
        "CUDA": "2,3",
        "WALRAS_TEAM": "t1",
        "WALRAS_JOB": "job-l1",
        "WALRAS_LEASE": "l1",
        "WALRAS_NODE": "n1",
        "WALRAS_ATTEMPT": "2",
        "WALRAS_PART": "0",
        "WALRAS_PARTS": "1",
        "WALRAS_DEVICES": "2,3",
        "WALRAS_CONTROL_DIR": "control",
        "WALRAS_CHECKPOINT_DIR": "shared/t1/job-l1",
    }
    assert made.directory == made.checkpoint_directory == "shared/t1/job-l1"
    assert launch(grant(run=None), "control", "shared", {}, {}) is None


def test_checkpoints_are_kept_where_it_is_said_or_in_the_state_directory() -> None:
    assert checkpoints_of(settings()) == "state/checkpoints"
    assert checkpoints_of(settings(checkpoint_directory="shared")) == "shared"


def test_the_warning_and_the_answers_are_those_of_the_contract() -> None:
    assert warning("s1", "quota_lost", 1, 2) == {
        "session": "s1",
        "reason": "quota_lost",
        "deadline_ms": 2,
        "warned_ms": 1,
    }
    done = {"session": "s1", "step": 3, "checkpoint": None}
    assert answers("s1", done, None) == Answers(saved=True)
    assert answers("s2", done, {"session": "s1", "text": "x"}) == Answers()
    assert answers("s1", None, {"session": "s1", "text": "x"}) == Answers(waits_for="x")
