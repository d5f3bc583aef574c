"""How a process of several partitions ends when it loses them."""

import asyncio
from typing import Any

import pytest

from libs.runtime.tests.echo_service import Settings, registry, spec
from walras_runtime import service
from walras_runtime.errors import FencedError, InvariantBrokenError
from walras_runtime.health import Health
from walras_runtime.telemetry import Telemetry


class Runner:
    """Stands where a StepRunner would; ends at once with the error of its partition."""

    errors: dict[int, Exception]

    def __init__(self, _: Any, partition: int, *__: Any, **___: Any) -> None:
        self.partition = partition

    async def run(self, _: asyncio.Event) -> None:
        raise self.errors[self.partition]


async def topics_are_there(*_: Any) -> None:
    """Find nothing to complain about."""


def run(monkeypatch: pytest.MonkeyPatch, errors: dict[int, Exception]) -> None:
    Runner.errors = errors
    monkeypatch.setattr(service, "StepRunner", Runner)
    monkeypatch.setattr(service, "check_topics", topics_are_there)
    asyncio.run(
        service.run_stages(
            spec(spread=True),
            Settings(kafka_bootstrap="nowhere:0"),
            asyncio.Event(),
            Telemetry("echo"),
            Health(),
            topics=registry(),
        )
    )


def test_losing_all_partitions_at_once_is_being_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FencedError, match="is another's"):
        run(monkeypatch, {p: FencedError(f"{p} is another's") for p in (0, 1)})


def test_a_broken_partition_is_not_hidden_by_a_fenced_one(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: dict[int, Exception] = {
        0: FencedError("0 is another's"),
        1: InvariantBrokenError("1 broke"),
    }
    with pytest.raises(ExceptionGroup) as caught:
        run(monkeypatch, errors)
    assert caught.value.subgroup(InvariantBrokenError) is not None
