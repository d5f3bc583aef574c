"""SIGUSR1: a flag while a drain is open, and what was there before after it."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from libs.job.tests.agent_side import Agent, eventually, python, run_python, signal_is
from walras_job import Drain, drainable

NEVER_NS = 2**62


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """Whatever a test does, the others find the default; and this process never dies of it."""
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    yield
    left = signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert left is signal.SIG_DFL


def only_a_signal_makes_it_look(drain: Drain) -> None:
    assert not drain.requested
    drain._watch.next_look_ns = NEVER_NS


def test_a_signal_shows_the_warning_at_the_next_question(as_part: Agent) -> None:
    with drainable() as drain:
        only_a_signal_makes_it_look(drain)
        as_part.warn()
        assert not drain.requested
        os.kill(os.getpid(), signal.SIGUSR1)
        assert drain.requested


def test_one_signal_makes_one_look(as_part: Agent) -> None:
    with drainable() as drain:
        os.kill(os.getpid(), signal.SIGUSR1)
        only_a_signal_makes_it_look(drain)
        as_part.warn()
        assert not any(drain.requested for _ in range(100))


def test_a_signal_without_a_warning_requests_nothing(as_part: Agent) -> None:
    with drainable() as drain:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert not drain.requested
        as_part.warn()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert drain.requested


def test_outside_walras_the_signal_is_not_touched() -> None:
    with drainable():
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def some_handler(*_: object) -> None:
    """Do what a job did before it knew Walras."""


@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN, some_handler])
def test_the_handler_of_before_is_back_at_the_exit(as_part: Agent, before: signal.Handlers) -> None:
    signal.signal(signal.SIGUSR1, before)
    try:
        with drainable():
            assert signal.getsignal(signal.SIGUSR1) is not before
        assert signal.getsignal(signal.SIGUSR1) is before
        with pytest.raises(ZeroDivisionError), drainable():
            raise ZeroDivisionError
        assert signal.getsignal(signal.SIGUSR1) is before
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def test_a_handler_that_somebody_put_over_ours_stays_and_the_file_is_enough(as_part: Agent) -> None:
    got: list[int] = []
    with drainable() as drain:
        signal.signal(signal.SIGUSR1, lambda number, _: got.append(number))
        as_part.warn()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert got == [signal.SIGUSR1]
        assert eventually(lambda: drain.requested)
    assert signal.signal(signal.SIGUSR1, signal.SIG_DFL) not in {signal.SIG_DFL, signal.SIG_IGN}


def test_nested_drains_are_one_and_the_outermost_exit_restores(as_part: Agent) -> None:
    with drainable() as outer:
        with drainable() as inner:
            as_part.warn()
            os.kill(os.getpid(), signal.SIGUSR1)
            assert outer.requested
            assert inner.requested
            inner.done()
            assert not outer.requested
        assert signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL
        as_part.warn("s2")
        os.kill(os.getpid(), signal.SIGUSR1)
        assert outer.requested
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_drains_that_are_left_in_another_order_restore_at_the_last_exit(as_part: Agent) -> None:
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(drainable())
        drain = second.enter_context(drainable())
        first.close()
        only_a_signal_makes_it_look(drain)
        as_part.warn()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert drain.requested
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_a_process_survives_the_signal_in_the_block_and_dies_of_it_after(agent: Agent) -> None:
    program = """
import os, signal
from walras_job import drainable
with drainable():
    os.kill(os.getpid(), signal.SIGUSR1)
    print("survived", flush=True)
os.kill(os.getpid(), signal.SIGUSR1)
print("not reached")
"""
    done = run_python(program, environment=agent.environment())
    assert (done.returncode, done.stdout) == (-signal.SIGUSR1, "survived\n")


def test_the_kernel_can_tell_whether_a_part_listens_yet(agent: Agent) -> None:
    """What the README tells the agent to look at before it sends."""
    program = """
import sys
print("starting", flush=True); sys.stdin.readline()
from walras_job import drainable
with drainable() as drain:
    print("listening", flush=True); sys.stdin.readline()
    print(drain.requested, flush=True)
"""
    with agent.start(*python(program), stdin=subprocess.PIPE) as part:
        assert part.stdin is not None
        assert part.stdout is not None
        assert part.stdout.readline() == "starting\n"
        assert not signal_is("caught", signal.SIGUSR1, part.pid)
        part.stdin.write("\n")
        part.stdin.flush()
        assert part.stdout.readline() == "listening\n"
        assert signal_is("caught", signal.SIGUSR1, part.pid)
        agent.warn()
        part.send_signal(signal.SIGUSR1)
        part.stdin.write("\n")
        part.stdin.flush()
        assert part.stdout.readline() == "True\n"
    assert part.returncode == 0


def test_system_calls_of_libraries_go_on_after_the_signal(as_part: Agent) -> None:
    """A C library that reads from a pipe while the signal comes is not disturbed."""
    library = ctypes.CDLL(None, use_errno=True)
    reading, writing = os.pipe()
    before = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/stat")
    child = os.fork()
    if child == 0:
        try:
            parent = os.getppid()
            for _ in range(20):
                # Asleep in the read, as far as can be seen from outside.
                while before.read_text("utf-8").rpartition(")")[2].split()[0] not in "SZ":
                    pass
                os.kill(parent, signal.SIGUSR1)
                time.sleep(0.002)
            os.write(writing, b"x")
        finally:
            os._exit(0)
    try:
        with drainable() as drain:
            received = drain._watch.signals.received
            buffer = ctypes.create_string_buffer(1)
            got = library.read(reading, buffer, 1)
            assert (got, buffer.raw) == (1, b"x")
            assert drain._watch.signals.received > received
    finally:
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)
