"""Forced compaction of every compacted topic, then a rebuild of every stage from the log."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from pydantic import BaseModel

from tests.simulation.world import specs
from walras.demo.run import Running
from walras_clearing_service.account_book import FAR_MS
from walras_clearing_service.state import ClearingState
from walras_contracts.topics import Topic, load_topics
from walras_launcher import start_kafka
from walras_runtime.kafka.log_reading import plain_consumer, read_all
from walras_runtime.kafka.restoring import restore
from walras_runtime.position import Position

Report = dict[str, Any]
RunMarket = Callable[..., Report]

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

ROLL = b"~roll"
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


def plain(value: Any) -> Any:  # noqa: PLR0911 - one line a kind of value
    """Return a stage's state as JSON can hold it, in one order whatever order it was built in."""
    if isinstance(value, ClearingState):
        return by_name(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return sorted(([plain(k), plain(v)] for k, v in value.items()), key=repr)
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v) for v in value), key=repr)
    if isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        return [plain(v) for v in value]
    if value is None or isinstance(value, (int, str, bool, float)):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if callable(value):
        return "callable"
    names = getattr(value, "__slots__", None) or vars(value)
    return {name: plain(getattr(value, name)) for name in sorted(names)}


def by_name(state: ClearingState) -> Any:
    """Return clearing's columns without the numbers of their rows, which tell of history only."""
    frozen = state.freeze(0, 0, FAR_MS - 1, ())
    teams = state.teams
    wallets = teams.wallet_micro[: len(teams)].tolist()
    exhausted = teams.exhausted[: len(teams)].tolist()
    return plain(
        {
            "jobs and teams": frozen.digest,
            "means": {n: m for n, *m in zip(teams.names.names, wallets, exhausted, strict=True)},
            "assigned": state.jobs.assignments(),
            "supply": state.supply,
            "last": state.last,
            "quotas": state.quotas,
            "settlement": state.settlement_barrier,
        }
    )


async def state_digests(bootstrap: str) -> dict[str, tuple[int, str]]:
    """Rebuild every stage from the log; return its step and the digest of its state."""
    found: dict[str, tuple[int, str]] = {}
    topics = load_topics(1)
    for spec in specs(1):
        stage = spec.build(0)
        partitions = {s.topic: tuple(range(topics[s.topic].partitions)) for s in spec.inputs}
        async with plain_consumer(bootstrap) as consumer:
            position: Position = await restore(
                consumer, spec, 0, stage, topics=topics, partitions=partitions
            )
        body = json.dumps(plain(stage), sort_keys=True)
        found[spec.service] = (position.step, hashlib.sha256(body.encode()).hexdigest())
    return found


async def repeats(bootstrap: str, topics: list[Topic]) -> dict[str, int]:
    """Return for each topic how many records are not the latest of their key."""
    found: dict[str, int] = {}
    for topic in topics:
        messages = await read_all(bootstrap, topic.full_name, range(topic.partitions))
        keys = [(m.partition, m.key) for m in messages if m.key != ROLL]
        found[topic.name] = len(keys) - len(set(keys))
    return found


async def force_compaction(bootstrap: str, compacted: list[Topic]) -> None:
    """Make the cleaner take every compacted topic, and wait until it has."""
    before = await repeats(bootstrap, compacted)
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, t.full_name, configs=FORCED) for t in compacted]
    )
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    waiting = {name for name, count in before.items() if count}
    assert waiting >= {"job.status", "leases", "quotas", "state.clearing", "state.placement"}
    try:
        async with asyncio.timeout(120):
            while waiting:
                # A segment is rolled, and so open to the cleaner, by a record that follows it.
                for topic in compacted:
                    for partition in range(topic.partitions):
                        await producer.send_and_wait(
                            topic.full_name, None, key=ROLL, partition=partition
                        )
                await asyncio.sleep(0.2)
                now = await repeats(bootstrap, [t for t in compacted if t.name in waiting])
                waiting = {name for name, count in now.items() if count}
    finally:
        await producer.stop()


def test_every_stage_rebuilt_from_a_compacted_log_is_in_the_same_state(
    run_market: RunMarket,
) -> None:
    digests: list[dict[str, tuple[int, str]]] = []

    async def inspect(running: Running) -> None:
        bootstrap = running.broker.bootstrap
        compacted = [t for t in load_topics(1).values() if t.cleanup == "compact"]
        await asyncio.to_thread(running.supervisor.stop)
        digests.append(await state_digests(bootstrap))
        await force_compaction(bootstrap, compacted)
        digests.append(await state_digests(bootstrap))

    report = run_market(
        broker=lambda: start_kafka(extra_properties=EAGER_CLEANER), inspect=inspect, reported=False
    )
    assert report == {}
    assert all(step == 60 for step, _ in digests[0].values())
    assert digests[1] == digests[0]


def test_a_state_that_lost_a_key_has_another_digest() -> None:
    """The canary of the comparison above."""
    spec = next(s for s in specs(1) if s.service == "clearing")
    stage: Any = spec.build(0)
    before = json.dumps(plain(stage), sort_keys=True)
    stage.state.teams.put_wallet("t", 1)
    assert json.dumps(plain(stage), sort_keys=True) != before
