"""``walras run`` is the launcher of the job SDK."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from libs.job.tests.agent_side import Agent, clean_environment, eventually
from walras.__main__ import build_parser
from walras_job.protocol import DrainDone

WALRAS = [sys.executable, "-m", "walras", "run"]


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*WALRAS, *words],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("program", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137)]
)
def test_the_exit_code_is_that_of_the_program(program: str, code: int) -> None:
    done = run("--", "sh", "-c", program)
    assert (done.returncode, done.stderr) == (code, "")


def test_words_of_the_program_are_not_words_of_the_command() -> None:
    done = run("--stateless", "--", "echo", "--help", "--", "--stateless")
    assert (done.returncode, done.stdout) == (0, "--help -- --stateless\n")
    parsed = build_parser("run").parse_args(["run", "--stateless", "--", "x", "--stateless"])
    assert (parsed.stateless, parsed.command) == (True, ["--", "x", "--stateless"])


def test_nothing_to_run_is_said_with_what_to_do() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "walras run: nothing to run; put the program after --: walras run -- python train.py\n"
    )


def test_a_warned_program_is_answered_for_and_ends_with_the_group(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "control", tmp_path / "checkpoints")
    try:
        program = ["sh", "-c", "echo on; read line"]
        process = agent.start(*WALRAS, "--stateless", "--", *program, stdin=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        agent.warn()
        process.send_signal(signal.SIGUSR1)
        assert eventually(lambda: agent.done() == DrainDone("s1"))
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()
        assert process.returncode == 128 + signal.SIGTERM
    finally:
        agent.end()
