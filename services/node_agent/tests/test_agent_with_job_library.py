"""The real agent and a job that uses the job library: it leaves one node and goes on at another."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from services.node_agent.tests.agent_rig import ROOT, Rig, check_usage, rig

LIBRARY = ROOT / "libs" / "job"
TRAIN = str(LIBRARY / "examples" / "train_plain.py")
PYTHON_PATH = str(LIBRARY / "src")
ENDLESS = 10**9
"""More steps than any test waits for, and no save in between."""


def train(node: Rig, lease: str, attempt: int, steps: int) -> None:
    program = (TRAIN, "--steps", str(steps), "--every", str(ENDLESS), "--pause-ms", "5")
    node.grant(program, lease, job="training", attempt=attempt, PYTHONPATH=PYTHON_PATH)


def printed(node: Rig, lease: str) -> list[str]:
    path = node.state / "parts" / lease / "output.log"
    return path.read_text("utf-8").splitlines() if path.exists() else []


def losses(lines: list[str]) -> dict[int, str]:
    found = [re.fullmatch(r"step (\d+) loss (\S+)", line) for line in lines]
    return {int(each[1]): each[2] for each in found if each is not None}


def in_one_go(directory: Path, steps: int) -> list[str]:
    """What the same program prints where nobody warns it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WALRAS_")}
    done = subprocess.run(
        [sys.executable, TRAIN, "--steps", str(steps), "--checkpoints", str(directory)],
        env={**environment, "PYTHONPATH": PYTHON_PATH},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_job_saves_when_it_is_drained_and_goes_on_at_another_node_where_it_was(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "shared"
    # SIGTERM never comes before the job has ended by itself.
    both = {"CHECKPOINT_DIRECTORY": str(shared), "LEAVE_MS": "600000"}
    here, there = tmp_path / "here", tmp_path / "there"
    for directory in (here, there):
        directory.mkdir()

    with rig(here, NODE="n1", **both) as node:
        train(node, "l1", 1, ENDLESS)
        node.until(lambda: node.statuses("l1")[-1:] == [("running", "")], "running")
        node.until(lambda: len(losses(printed(node, "l1"))) >= 5, "some steps")
        node.drain("l1", warning_ms=600_000, terminate_ms=600_000)
        freed = node.until_freed("l1")

        first = printed(node, "l1")
        left = max(losses(first))
        assert first[0] == "begins after step 0"
        assert first[-1] == f"leaves after step {left}: quota_lost"
        done = json.loads((node.control("l1") / "done.json").read_text("utf-8"))
        assert (done["session"], done["step"]) == ("s1", left)
        assert Path(done["checkpoint"]).parent == shared / "t1" / "training"
        assert (freed.outcome.value, freed.exit_code) == ("vacated", 0)
        states = ["warned", "checkpointing", "waiting", "verifying", "freed"]
        assert node.drain_states("l1") == states
        assert node.processes("l1") == []
        check_usage(node.usage("l1"))

    with rig(there, NODE="n2", **both) as node:
        train(node, "l2", 2, left + 3)
        freed = node.until_freed("l2")

        second = printed(node, "l2")
        assert second[0] == f"begins after step {left}"
        assert [*losses(second)] == [left + 1, left + 2, left + 3]
        assert (freed.node, freed.outcome.value, freed.exit_code) == ("n2", "finished", 0)

    whole = in_one_go(tmp_path / "alone", left + 3)
    assert losses(whole) == {**losses(first), **losses(second)}
    assert second[-1] == whole[-1]
    assert whole[-1].startswith("finished: ")
