"""How a process of several partitions ends when it loses them."""

import asyncio
from typing import Any

import pytest

from libs.runtime.tests.echo_service import Settings, registry, spec
from walras_runtime import service
from walras_runtime.errors import FencedError, InvariantBrokenError, TopicMismatchError
from walras_runtime.health import Health
from walras_runtime.service import EXIT_BROKEN, EXIT_FENCED, EXIT_USAGE
from walras_runtime.settings import SettingsError
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


def run(monkeypatch: pytest.MonkeyPatch, errors: dict[int, Exception], **settings: int) -> None:
    Runner.errors = errors
    monkeypatch.setattr(service, "StepRunner", Runner)
    monkeypatch.setattr(service, "check_topics", topics_are_there)
    asyncio.run(
        service.run_stages(
            spec(spread=True),
            Settings.read(kafka_bootstrap="nowhere:0", **settings),
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


def test_more_replicas_than_partitions_are_told_instead_of_running_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SettingsError, match="2 of 3 replicas has no share of 2 partitions"):
        run(monkeypatch, {}, replica_index=2, replica_count=3)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError("no share"), EXIT_USAGE),
        (TopicMismatchError("no topic"), EXIT_USAGE),
        (FencedError("another's"), EXIT_FENCED),
        (InvariantBrokenError("broke"), EXIT_BROKEN),
    ],
)
def test_how_a_process_ended_is_its_exit_code(error: Exception, code: int) -> None:
    async def serve(*_: Any) -> None:
        raise error

    settings = Settings.read(kafka_bootstrap="nowhere:0")
    assert asyncio.run(service._supervise(settings, serve)) == code
