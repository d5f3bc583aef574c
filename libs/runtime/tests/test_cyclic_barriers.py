"""Compaction on a real broker removes old barriers, and stages read on from those that are left."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from libs.runtime.tests.kafka_rig import eventually
from libs.runtime.tests.sum_stage import TABLE, raw, registry, wired
from walras_launcher.pytest_plugin import OwnBroker
from walras_runtime import records
from walras_runtime.health import Health
from walras_runtime.kafka.barriers import BarrierWriter
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.producing import make_producer
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Barrier, Output
from walras_runtime.service import run_stages
from walras_runtime.settings import ServiceSettings
from walras_runtime.stage import StageSpec
from walras_runtime.telemetry import Telemetry

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

KEYS, STEPS = 4, 30
TOPICS = registry()
NAME = TOPICS["table"].full_name
EAGER_CLEANER = {
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
}
FORCED = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "0",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.001",
}


class Settings(ServiceSettings):
    """The stage of these tests."""

    SERVICE = "sum"


@asynccontextmanager
async def running(bootstrap: str, spec: StageSpec) -> AsyncIterator[Health]:
    stop, health = asyncio.Event(), Health()
    settings = Settings.read(kafka_bootstrap=bootstrap, mode="replay", election_session_ms=1000)
    task = asyncio.create_task(
        run_stages(spec, settings, stop, Telemetry("sum"), health, topics=TOPICS)
    )
    try:
        yield health
    finally:
        stop.set()
        await task


async def said(bootstrap: str) -> dict[str, bytes]:
    """Return what the stage said at each step."""
    messages = await read_all(bootstrap, TOPICS["out"].full_name, [0])
    return {m.key.decode(): m.value for m in messages if not m.key.startswith(b"~")}


async def barriers(bootstrap: str) -> list[int]:
    """Return the numbers of the barriers that partition 0 of the table still has."""
    items = [parse_message(m, "table") for m in await read_all(bootstrap, NAME, [0])]
    return [item.barrier.number for item in items if isinstance(item, BarrierMark)]


async def until(condition: Callable[[], Any], what: str) -> None:
    async def holds() -> bool:
        return bool(await condition())

    await eventually(holds, what)


async def feed(bootstrap: str, first: int, count: int) -> None:
    async with BarrierWriter(bootstrap, TOPICS) as writer:
        await writer.last_barrier()
        for number in range(first, first + count):
            row = Output("table", "abc"[number % 3], "", "t", b"%d" % number, 0)
            await writer.write(Barrier(number, number * 1_000), [row])


async def force_compaction(bootstrap: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, NAME, configs=FORCED)])
    await admin.close()
    producer = make_producer(bootstrap)
    await producer.start()

    async def compacted() -> bool:
        # A segment is closed, and so open to the cleaner, by a record that follows it.
        await producer.send_and_wait(NAME, None, key=b"~roll", partition=0)
        await asyncio.sleep(0.2)
        return len(await barriers(bootstrap)) <= KEYS

    await eventually(compacted, "the cleaner to have removed old barriers")
    await producer.stop()


@pytest.mark.asyncio
async def test_old_barriers_are_compacted_away_and_a_table_is_read_from_the_tail_that_is_left(
    own_broker: OwnBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "BARRIER_KEYS", KEYS)
    bootstrap = own_broker(extra_properties=EAGER_CLEANER).bootstrap
    await create_topics(bootstrap, TOPICS)
    await feed(bootstrap, 0, STEPS)

    async def decided(step: int) -> bool:
        return str(step) in await said(bootstrap)

    # The table is wired in only after compaction, and so read from the beginning of the log.
    async with running(bootstrap, wired()):
        await until(lambda: decided(STEPS - 1), "the last step")
    await force_compaction(bootstrap)
    assert await barriers(bootstrap) == list(range(STEPS - KEYS, STEPS))
    await feed(bootstrap, STEPS, 1)
    spec = wired(raw(TABLE))
    async with running(bootstrap, spec) as health:
        await until(lambda: decided(STEPS), "the step after compaction")
        assert not health.faults
    held = (await said(bootstrap))[str(STEPS)]
    assert held == b'[["table", 0, "a", "30"], ["table", 0, "b", "28"], ["table", 0, "c", "29"]]'
    # And once more, restored from what compaction left.
    await feed(bootstrap, STEPS + 1, 1)
    async with running(bootstrap, spec) as health:
        await until(lambda: decided(STEPS + 1), "the step after a restart")
        assert not health.faults
    held = (await said(bootstrap))[str(STEPS + 1)]
    assert held == b'[["table", 0, "a", "30"], ["table", 0, "b", "31"], ["table", 0, "c", "29"]]'
