"""The examples as real processes: warned, done, and going on elsewhere."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from libs.job.tests.agent_side import Agent, clean_environment, eventually, run, signal_is
from walras_job import Checkpoint
from walras_job.protocol import DrainDone

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PLAIN, TORCH = EXAMPLES / "train_plain.py", EXAMPLES / "train_torch.py"
STEPS = 5_000
TORCH_PYTHON = os.environ.get("JOB_EXAMPLE_PYTHON", sys.executable)
"""An interpreter that has PyTorch may stand in for this one, which need not have it."""


def command(example: Path, *words: str) -> list[str]:
    python = TORCH_PYTHON if example == TORCH else sys.executable
    return [python, str(example), "--steps", str(STEPS), *words]


def drained(agent: Agent, example: Path, kind: str) -> list[str]:
    """Start an example, warn it in the midst of its work, and return what it printed."""
    with agent.start(*command(example, "--pause-ms", "2", "--every", "50")) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("step"):
            lines.append(process.stdout.readline().strip())
            assert lines[-1], process.communicate()
        agent.warn(f"s{agent.part.attempt}", reason="quota lost")
        if kind == "signal":
            assert signal_is("caught", signal.SIGUSR1, process.pid)
            process.send_signal(signal.SIGUSR1)
        # To the end by the same reader: lines that it has read ahead are not lost.
        lines += process.stdout.read().splitlines()
        assert process.wait() == 0, lines
    return lines


@pytest.mark.parametrize("kind", ["file", "signal"])
@pytest.mark.parametrize("example", [PLAIN, TORCH], ids=["plain", "torch"])
def test_warned_it_saves_says_done_and_goes_on_elsewhere_as_if_nothing_had_been(
    tmp_path: Path, example: Path, kind: str
) -> None:
    shared = tmp_path / "shared"
    printed: list[str] = []
    begun = 0
    for attempt in (1, 2):
        agent = Agent(tmp_path / f"control-{attempt}", shared, attempt)
        lines = drained(agent, example, kind)
        assert lines[0] == f"begins after step {begun}"
        done = agent.done()
        assert done is not None
        assert done.step is not None
        assert begun < done.step < STEPS
        latest = Checkpoint(shared).latest()
        assert latest is not None
        assert done == DrainDone(f"s{attempt}", latest.step, str(latest.path))
        assert lines[-1] == f"leaves after step {done.step}: quota lost"
        begun = done.step
        printed += lines[1:-1]
    agent = Agent(tmp_path / "control-3", shared, 3)
    last = run(command(example), agent.environment()).stdout.splitlines()
    assert last[0] == f"begins after step {begun}"
    never_stopped = run(command(example, "--checkpoints", str(tmp_path / "b")), clean_environment())
    assert printed + last[1:] == never_stopped.stdout.splitlines()[1:]
    assert last[-1].startswith("finished")


@pytest.mark.parametrize("example", [PLAIN, TORCH], ids=["plain", "torch"])
def test_killed_without_a_warning_it_goes_on_from_its_last_save(
    tmp_path: Path, example: Path
) -> None:
    shared = tmp_path / "shared"
    first = Agent(tmp_path / "control-1", shared, 1)
    with first.start(*command(example, "--pause-ms", "1", "--every", "10")) as process:
        assert eventually(lambda: len(list(shared.glob("*.checkpoint"))) == 2)
        process.kill()
        process.communicate()
    latest = Checkpoint(shared).latest()
    assert latest is not None
    second = Agent(tmp_path / "control-2", shared, 2)
    lines = run(command(example), second.environment()).stdout.splitlines()
    assert lines[0] == f"begins after step {latest.step}"
    assert lines[-1].startswith("finished")


def test_without_pytorch_the_same_loop_says_that_it_trains_numpy_weights(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('torch')", "utf-8")
    environment = clean_environment()
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environment['PYTHONPATH']}"
    words = [sys.executable, str(TORCH), "--steps", "60", "--checkpoints", str(tmp_path / "c")]
    done = run(words, environment)
    assert done.returncode == 0
    assert done.stderr == "PyTorch is not installed: the same loop trains NumPy weights\n"
    losses = [float(line.split()[-1]) for line in done.stdout.splitlines() if "step" in line[:5]]
    assert losses[-1] < losses[0] / 50


@pytest.mark.parametrize("example", [PLAIN, TORCH], ids=["plain", "torch"])
def test_an_example_explains_itself(example: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example), "--help"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert "--checkpoints" in done.stdout
