"""The loop on a real broker tells how far it has restored, topic by topic."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from libs.runtime.tests.kafka_rig import Rig
from walras_launcher.running import Broker
from walras_runtime import progress

STEPS = 4


async def events_of_a_restart(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Run a stage for some steps, then again; return what the second one said on restoring."""
    async with rig.follow() as out:
        await rig.feed_steps(STEPS)
        async with rig.running(spread=False, raw=False, election_session_ms=1000):
            await out.until(STEPS - 1)
        await rig.feed_steps(1)
        monkeypatch.setattr(progress, "EVERY_MS", 0)
        with capture_logs() as logged:
            async with rig.running(spread=False, raw=False, election_session_ms=1000):
                await out.until(STEPS)
        return [event for event in logged if event["event"] == "restoring"]


@pytest.mark.asyncio
async def test_a_restart_reports_the_records_of_each_topic_up_to_all_of_them(
    kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig:
        events = await events_of_a_restart(rig, monkeypatch)
        state = rig.topics[f"state.{rig.service}"].full_name
    assert events
    assert {event["stage"] for event in events} == {f"{rig.service}/0"}
    counts = [event["records_read"][state] for event in events]
    assert counts == sorted(counts)
    last = events[-1]
    assert last["records_read"] == last["records_to_read"]
    assert last["records_to_read"][state] >= STEPS


@pytest.mark.asyncio
async def test_a_quick_restart_says_nothing_on_the_way(
    kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_MS", 600_000)
    async with Rig.opened(kafka_broker.bootstrap, tmp_path) as rig, rig.follow() as out:
        await rig.feed_steps(1)
        with capture_logs() as logged:
            async with rig.running(spread=False, election_session_ms=1000):
                await out.until(0)
        names = [event["event"] for event in logged]
        assert "restored" in names
        assert "restoring" not in names
