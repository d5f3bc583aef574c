"""SIGINT and SIGTERM end a demo in order, and what is ending is not interrupted."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from walras.demo.run import DemoOptions, run_demo
from walras.demo_command import default_scenario
from walras.interrupts import INTERRUPTS, handlers_kept, not_to_be_interrupted, take_interrupts
from walras.processes import Supervisor
from walras_launcher import LauncherError

INTERRUPTED = """
import asyncio, signal, sys
from walras import demo_command, demo_nodes_command
from walras.__main__ import main

async def read(number):
    try:
        signal.raise_signal(number)
        await asyncio.Event().wait()
    except BaseException as error:
        print(type(error).__name__, flush=True)
        await asyncio.sleep(0)
        print("closed", flush=True)
        raise

def run(*_):
    asyncio.run(read(int(sys.argv[1])))

demo_command.run_demo = demo_nodes_command.run_nodes_demo = run
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.argv[0] = "walras"
main(sys.argv[2:])
"""
"""A command whose run gets a signal while it waits for a read; begun as by a shell behind ``&``."""


@pytest.mark.parametrize("command", ["demo", "demo-nodes"])
@pytest.mark.parametrize("number", INTERRUPTS, ids=[number.name for number in INTERRUPTS])
def test_a_read_that_is_waited_for_is_cancelled_and_may_close(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(int(number)), command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stderr == "stopped; nothing is left running\n"
    assert done.stdout.split() == ["CancelledError", "closed"]
    assert done.returncode == 130


def test_the_end_of_a_demo_is_not_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, stopped = Supervisor.stop, []

    def interrupted_stop(supervisor: Supervisor) -> None:
        for number in INTERRUPTS:
            signal.raise_signal(number)
        stop(supervisor)
        stopped.append(supervisor)

    def no_broker() -> NoReturn:
        raise LauncherError("no_broker", "None.", "Get one.")

    monkeypatch.setattr(Supervisor, "stop", interrupted_stop)
    options = DemoOptions(default_scenario(), tmp_path, hours=1, board=False, broker=no_broker)
    with handlers_kept():
        take_interrupts()
        taken = [signal.getsignal(number) for number in INTERRUPTS]
        with pytest.raises(LauncherError):
            run_demo(options, print)
        assert [signal.getsignal(number) for number in INTERRUPTS] == taken
    assert stopped


def test_handlers_are_given_back_as_they_were() -> None:
    before = [signal.getsignal(number) for number in INTERRUPTS]
    with handlers_kept():
        take_interrupts()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        not_to_be_interrupted()
        signal.raise_signal(signal.SIGINT)
    assert [signal.getsignal(number) for number in INTERRUPTS] == before
