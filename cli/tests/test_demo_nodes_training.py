"""The training of the demo: it leaves when it is asked to, and goes on where it was."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from libs.job.tests.agent_side import Agent, clean_environment, eventually
from walras.demo_nodes.evidence import digest_in_one_go
from walras.demo_nodes.job_files import MODULE, THREADS
from walras.demo_nodes.journal import read_journal
from walras.demo_nodes.training import JOURNAL
from walras_job import Checkpoint

ENDLESS = 10**6


KERNELS = ("Prescott", "Haswell", "SkylakeX")
"""What OpenBLAS may take one machine for; unknown names mean nothing to it."""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", MODULE, *words]


def test_a_training_that_leaves_goes_on_with_the_next_step_and_ends_as_one_in_one_go(
    tmp_path: Path,
) -> None:
    nodes, checkpoints = tmp_path / "nodes", tmp_path / "checkpoints"
    device = nodes / "node-1" / "devices" / "0"
    device.mkdir(parents=True)
    journal = checkpoints / JOURNAL
    first_part = Agent(tmp_path / "first", checkpoints)
    words = ("--steps", str(ENDLESS), "--every", str(ENDLESS), "--step-ms", "5")
    process = first_part.start(*command(*words, "--save-ms", "20", "--nodes", str(nodes)))
    try:
        assert eventually(lambda: read_journal(journal).last_step >= 5)
        assert (device / str(process.pid)).exists()
        first_part.warn()
        assert process.wait(60) == 0
    finally:
        first_part.end()
    (first,) = read_journal(journal).attempts
    left = first.steps[-1]
    assert first.ended == "leaves"
    assert first.steps == tuple(range(1, left + 1))
    assert first.saved == (left,)
    latest = Checkpoint(checkpoints / "saved").latest()
    assert latest is not None
    said = first_part.done()
    assert said is not None
    assert (latest.step, said.step) == (left, left)

    second_part = Agent(tmp_path / "second", checkpoints, attempt=2)
    again = command("--steps", str(left + 4))
    subprocess.run(again, env=second_part.environment(), check=True, timeout=60)
    second = read_journal(journal).attempts[1]
    assert second.begins_after == left
    assert second.begins_digest == first.last_digest
    assert second.steps == tuple(range(left + 1, left + 5))
    assert second.ended == "finished"
    assert second.last_digest == digest_in_one_go(left + 4, tmp_path / "in-one-go")


def test_a_drain_that_was_called_off_while_it_saved_is_not_answered_and_training_goes_on(
    tmp_path: Path,
) -> None:
    checkpoints = tmp_path / "checkpoints"
    journal = checkpoints / JOURNAL
    part = Agent(tmp_path / "part", checkpoints)
    # The save takes long, so that however busy the machine is, it is called off while it lasts.
    words = ("--steps", "400", "--every", str(ENDLESS), "--step-ms", "5", "--save-ms", "5000")
    process = part.start(*command(*words))
    try:
        assert eventually(lambda: read_journal(journal).last_step >= 2)
        part.warn()
        assert eventually(lambda: part.progress() is not None)
        part.cancel()
        assert process.wait(60) == 0
    finally:
        part.end()
    (only,) = read_journal(journal).attempts
    assert only.ended == "finished"
    assert only.steps == tuple(range(1, 401))
    assert part.done() is None


def test_it_trains_outside_walras_too_and_its_loss_falls(tmp_path: Path) -> None:
    environment = {**clean_environment(), **THREADS}
    words = ("--steps", "60", "--checkpoints", str(tmp_path))
    subprocess.run(command(*words), env=environment, check=True, timeout=60)
    (only,) = read_journal(tmp_path / JOURNAL).attempts
    assert sum(only.losses[-10:]) < sum(only.losses[:10])


def test_a_journal_whose_last_line_is_torn_is_read_up_to_it(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    assert read_journal(path).last_step == 0
    about = {"node": "n", "lease": "l.1", "attempt": 1, "devices": [0], "at_ms": 5}
    lines = [
        {"what": "begins", "step": 0, "digest": "aa", **about},
        {"what": "step", "step": 1, "loss": 0.5, **about},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_text(text + '{"what": "step", "st', "utf-8")
    found = read_journal(path)
    assert found.last_step == 1
    assert found.attempts[0].ended == ""
    assert found.attempts[0].devices == (0,)


def test_the_weights_do_not_depend_on_the_kernels_that_a_process_has_for_products(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = {digest_in_one_go(20, tmp_path / "as-found")}
    for kernel in KERNELS:
        monkeypatch.setenv("OPENBLAS_CORETYPE", kernel)
        digests.add(digest_in_one_go(20, tmp_path / kernel))
    assert len(digests) == 1
