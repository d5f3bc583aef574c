"""What a fenced producer answers with is its own; a mistake of ours is not taken for it."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from walras_contracts.topics import load_topics
from walras_runtime.errors import InvariantBrokenError, ProducerFailedError
from walras_runtime.kafka import barriers
from walras_runtime.kafka.barriers import BarrierWriter
from walras_runtime.records import Barrier

ROOT = Path(__file__).parents[3]
CALLS = ("begin_transaction", "send_batch", "commit_transaction", "stop")
BARRIER = Barrier(1, 5_000)


class Producer:
    """A producer of which some calls answer that it was fenced."""

    def __init__(self, *fenced: str) -> None:
        self._fenced = fenced

    def __getattr__(self, name: str) -> Any:
        if name not in (*CALLS, "start"):
            raise AttributeError(name)

        async def call(*_: object, **__: object) -> Any:
            if name in self._fenced:
                raise AssertionError("invalid state transition")
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done

        return call


async def write(fenced: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a barrier through such a producer."""
    monkeypatch.setattr(barriers, "make_producer", lambda *_, **__: Producer(fenced))
    monkeypatch.setattr(barriers, "pack_rows", lambda _, rows: [(*place, 0) for place in rows])
    async with BarrierWriter("nowhere:1", load_topics(1), transactional_id="some") as writer:
        await writer.write(BARRIER)


@pytest.mark.parametrize("call", CALLS)
def test_a_fenced_writer_of_barriers_says_that_its_producer_failed(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with pytest.raises(ProducerFailedError, match="takes no more calls"):
        asyncio.run(write(call, monkeypatch))
    asyncio.run(write("none", monkeypatch))


def test_why_a_writer_ends_is_not_hidden_by_a_producer_that_cannot_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ticker whose clock cannot be trusted must not take it for a broker that is away."""

    async def halt(*fenced: str) -> None:
        monkeypatch.setattr(barriers, "make_producer", lambda *_, **__: Producer(*fenced))
        async with BarrierWriter("nowhere:1", load_topics(1), transactional_id="some"):
            raise InvariantBrokenError("the clock jumped")

    with pytest.raises(InvariantBrokenError, match="the clock jumped"):
        asyncio.run(halt("stop"))
    with pytest.raises(AssertionError, match="invalid state"):
        asyncio.run(halt("start", "stop"))


def test_a_mistake_while_rows_are_made_is_not_taken_for_a_failed_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise AssertionError("a mistake of ours")

    monkeypatch.setattr(BarrierWriter, "_rows", fails)
    with pytest.raises(AssertionError, match="a mistake of ours"):
        asyncio.run(write("none", monkeypatch))


def test_nothing_but_calls_of_the_client_is_guarded_against_an_assertion() -> None:
    caught = re.compile(r"except [^\n]*AssertionError|^ +AssertionError,$", re.MULTILINE)
    found = {
        str(path.relative_to(ROOT)): len(caught.findall(path.read_text("utf-8")))
        for folder in ("libs", "services", "cli")
        for path in sorted((ROOT / folder).glob("**/src/**/*.py"))
    }
    assert {path: count for path, count in found.items() if count} == {
        "libs/runtime/src/walras_runtime/kafka/producing.py": 1
    }
