"""A process that is killed while it saves leaves the old checkpoint or the new one."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from libs.job.tests import kill_points
from libs.job.tests.agent_side import clean_environment, eventually, python, run
from walras_job import Checkpoint


@pytest.fixture
def fast_directory(tmp_path: Path) -> Iterator[Path]:
    """A kill asks nothing of the disk, and thousands of saves are forced to it."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else tmp_path
    with TemporaryDirectory(dir=where) as name:
        yield Path(name)


@pytest.mark.parametrize("points", ["lines", pytest.param("opcodes", marks=pytest.mark.slow)])
def test_killed_at_every_point_of_a_save_the_old_or_the_new_one_is_there(
    fast_directory: Path, points: str
) -> None:
    command = [sys.executable, kill_points.__file__, points, str(fast_directory)]
    done = run(command, clean_environment(), timeout_s=290)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [killed for killed, *_ in lines] == [True] * (len(lines) - 1) + [False]
    found = Counter(what for _, what, *_ in lines)
    assert found.keys() == {"old", "new"}
    # Old up to a point, new from there on: the rename is that point.
    turns = [what for _, what, *_ in lines]
    assert turns == ["old"] * found["old"] + ["new"] * found["new"]
    assert all(goes_on for _, _, goes_on, _, _ in lines)
    # Some kills leave a half-written file; whoever comes next removes it.
    assert any(left for *_, left in lines)
    assert all(swept for *_, swept, _ in lines)


@pytest.mark.parametrize("attempts", ["one after the other", "the same"])
def test_killed_at_any_time_again_and_again_steps_never_go_back_and_nothing_piles_up(
    tmp_path: Path, global_random_seed: int, attempts: str
) -> None:
    program = """
import sys
from walras_job import Checkpoint
checkpoint = Checkpoint(sys.argv[1], attempt=int(sys.argv[2]))
latest = checkpoint.latest()
step = 0 if latest is None else latest.step
assert latest is None or latest.read() == b"%d" % step * 400_000
while True:
    step += 1
    checkpoint.save(b"%d" % step * 400_000, step)
    print(step, flush=True)
"""
    draw = random.Random(global_random_seed)
    reached = 0
    for round_number in range(12):
        attempt = 0 if attempts == "the same" else round_number
        command = python(program, str(tmp_path), str(attempt))
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=clean_environment()) as process:
            assert process.stdout is not None
            for _ in range(draw.randrange(1, 4)):
                line = process.stdout.readline()
                reached = int(line)
            # Some time within one save; what counts is what is found, whenever that was.
            spin = draw.randrange(200_000)
            while spin:
                spin -= 1
            process.kill()
        latest = Checkpoint(tmp_path, attempt=attempt).latest()
        assert latest is not None
        # What was said to be saved is; one more may have got into place before it was said.
        assert latest.step >= reached
        assert latest.read() == b"%d" % latest.step * 400_000
        assert len(list(tmp_path.glob("*.checkpoint"))) <= 3
    assert list(tmp_path.glob(".*.tmp")) == []


def test_a_writer_that_lives_keeps_its_file_when_another_of_its_attempt_sweeps(
    tmp_path: Path,
) -> None:
    program = """
import sys
from walras_job import Checkpoint
def slowly(stream):
    stream.write(b"x" * 2_000_000)
    print("half", flush=True)
    sys.stdin.readline()
    stream.write(b"y")
print(Checkpoint(sys.argv[1], attempt=1).save(slowly, step=8).step, flush=True)
"""
    command = python(program, str(tmp_path))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean_environment()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        assert Checkpoint(tmp_path, attempt=1).latest() is None
        assert len(list(tmp_path.glob(".*.tmp"))) == 1
        said, _ = process.communicate("\n")
    assert said == "8\n"
    latest = Checkpoint(tmp_path, attempt=1).latest()
    assert latest is not None
    assert latest.step == 8


def test_a_half_written_file_of_a_dead_process_is_swept_by_the_next(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from walras_job import Checkpoint
def die(stream):
    stream.write(b"x" * 2_000_000)
    os.kill(os.getpid(), signal.SIGKILL)
Checkpoint(sys.argv[1], attempt=1).save(die, step=8)
"""
    for _ in range(3):
        run(python(program, str(tmp_path)), clean_environment())
        assert len(list(tmp_path.glob(".*.tmp"))) == 1
    Checkpoint(tmp_path, attempt=1)
    assert eventually(lambda: not list(tmp_path.glob(".*.tmp")))
