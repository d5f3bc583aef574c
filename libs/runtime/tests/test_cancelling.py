"""Whoever is asked to end does, also where what it awaits keeps that to itself."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from walras_runtime.cancelling import heeded
from walras_runtime.kafka.opening import opened
from walras_runtime.kafka.producing import answered

NOWHERE = "127.0.0.1:1"


async def deaf(begun: asyncio.Event, *, fails: bool = False) -> str:
    """End as a producer does that is stopped: on a cancellation, and without a word of it."""

    async def routine() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)

    await asyncio.get_running_loop().create_task(routine())
    if fails:
        raise OSError("the connection is gone")
    return "stopped"


async def cancelled_during(call: Any, begun: asyncio.Event) -> asyncio.Task[Any]:
    task = asyncio.get_running_loop().create_task(call)
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    return task


@pytest.mark.asyncio
async def test_canary_a_call_that_keeps_a_cancellation_to_itself_does_so() -> None:
    begun = asyncio.Event()
    task = await cancelled_during(deaf(begun), begun)
    assert task.result() == "stopped"


@pytest.mark.asyncio
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("wrapped", [heeded, answered])
async def test_a_cancellation_comes_out_however_the_call_ends(wrapped: Any, *, fails: bool) -> None:
    begun = asyncio.Event()
    task = await cancelled_during(wrapped(deaf(begun, fails=fails)), begun)
    assert task.cancelled()


@pytest.mark.asyncio
async def test_a_call_that_is_left_alone_gives_what_it_gives() -> None:
    async def seven() -> int:
        return 7

    async def broken() -> None:
        raise OSError("the connection is gone")

    assert await heeded(seven()) == 7
    with pytest.raises(OSError, match="is gone"):
        await heeded(broken())


@pytest.mark.asyncio
async def test_a_task_that_was_asked_before_may_still_tidy_up() -> None:
    begun, tidied = asyncio.Event(), []

    async def use() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await heeded(asyncio.sleep(0))
            tidied.append("all")

    task = await cancelled_during(use(), begun)
    assert task.cancelled()
    assert tidied == ["all"]


@pytest.mark.asyncio
async def test_a_caller_that_is_cancelled_while_its_producer_is_closed_goes_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producer, begun, went_on = AIOKafkaProducer(bootstrap_servers=NOWHERE), asyncio.Event(), []

    async def start() -> None:
        """As if there were a broker."""

    async def stop() -> None:
        await deaf(begun)

    monkeypatch.setattr(producer, "start", start)
    monkeypatch.setattr(producer, "stop", stop)
    # It was never started: there is nothing to warn of.
    producer._closed = True

    async def use() -> None:
        async with opened(producer):
            pass
        went_on.append("it")

    task = await cancelled_during(use(), begun)
    assert task.cancelled()
    assert went_on == []


INTERRUPTED = """
import asyncio, signal, sys
from libs.runtime.tests.test_cancelling import deaf
from walras_runtime.cancelling import heeded

async def interrupted():
    begun = asyncio.Event()

    async def press():
        await begun.wait()
        signal.raise_signal(signal.SIGINT)

    pressing = asyncio.get_running_loop().create_task(press())
    told = await deaf(begun)
    await pressing
    return told

signal.signal(signal.SIGINT, signal.default_int_handler)
with asyncio.Runner() as runner:
    print(runner.run(interrupted()))
    try:
        runner.run(heeded(interrupted()))
    except KeyboardInterrupt:
        print("interrupted")
"""
"""A process of its own: whoever runs tests may have SIGINT ignored."""


def test_an_interrupt_ends_a_command_whose_call_keeps_it_to_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    # The first line is a canary: without us it is lost.
    assert done.stdout.split() == ["stopped", "interrupted"], done.stderr
