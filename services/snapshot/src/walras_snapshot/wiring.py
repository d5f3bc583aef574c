"""Wires the projection: reads the topics by hand, publishes to Redis, never stops the market."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from redis.asyncio import Redis

from walras_contracts.topics import Topic, load_topics
from walras_runtime.clock import monotonic_ms
from walras_runtime.errors import BrokerUnavailableError
from walras_runtime.health import Health
from walras_runtime.kafka.log_reading import ends, plain_consumer
from walras_runtime.kafka.topics_admin import check_topics
from walras_runtime.kafka.wire import parse_message
from walras_runtime.redis.log_id import read_log_id
from walras_runtime.redis.snapshot_store import RedisSnapshotStore, open_redis
from walras_runtime.settings import SettingsError
from walras_runtime.telemetry import Telemetry
from walras_snapshot.projection import INPUTS, Projection, Snapshot
from walras_snapshot.publisher import Publisher
from walras_snapshot.settings import Settings

LOG_TOPIC = "cycles"
"""Its creation stamp is part of the log's id (step protocol §7)."""
STORE_NAME = "snapshot"
RETRY_S = 2.0

logger = structlog.get_logger("walras")


@dataclass(frozen=True, slots=True)
class Shown:
    """A snapshot and the id of the log that shows it."""

    log_id: str
    snapshot: Snapshot


class Reader:
    """Reads the inputs from their beginnings and holds the newest snapshot."""

    def __init__(self, settings: Settings, topics: Mapping[str, Topic], health: Health) -> None:
        self._settings = settings
        self._topics = {source.topic: topics[source.topic] for source in INPUTS}
        self._short = {topic.full_name: name for name, topic in self._topics.items()}
        self._id_topic = topics[LOG_TOPIC].full_name
        self._health = health
        self.latest: Shown | None = None
        self.fresh = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Read until stopped; after a fault of the broker start over from the beginnings."""
        while not stop.is_set():
            try:
                async with plain_consumer(self._settings.kafka_bootstrap) as consumer:
                    await self._follow(consumer, stop)
            except (KafkaError, BrokerUnavailableError) as error:
                self._health.fail("kafka", f"{type(error).__name__}: {error}")
                logger.warning("log_not_readable", why=str(error))
                await _pause(stop, RETRY_S)

    async def _follow(self, consumer: AIOKafkaConsumer, stop: asyncio.Event) -> None:
        """Follow the log of one connection; the address may have another log at the next one."""
        log_id: str | None = None
        counts = {name: topic.partitions for name, topic in self._topics.items()}
        projection = Projection(counts, self._settings.barriers_per_cycle())
        tps = [
            TopicPartition(topic.full_name, partition)
            for topic in self._topics.values()
            for partition in range(topic.partitions)
        ]
        consumer.assign(tps)
        for tp, offset in (await consumer.beginning_offsets(tps)).items():
            consumer.seek(tp, offset)
        # Compaction has removed records that a later one of their key replaced, so what an old
        # barrier shows is incomplete until everything written before this start has been read.
        behind = {tp: end for tp, end in (await ends(consumer, tps)).items() if end > 0}
        while not stop.is_set():
            batches = await consumer.getmany(timeout_ms=100, max_records=10_000)
            for tp, messages in batches.items():
                topic = self._short[tp.topic]
                for message in messages:
                    projection.push(topic, tp.partition, parse_message(message, topic))
            for tp in sorted(behind):
                if await consumer.position(tp) >= behind[tp]:
                    del behind[tp]
            if behind:
                continue
            self._health.clear("kafka")
            snapshot = projection.advance()
            if projection.undecodable:
                self._health.details["undecodable"] = str(dict(projection.undecodable))
            if snapshot is not None:
                log_id = log_id or await self._log_id()
                self._show(Shown(log_id, snapshot))

    async def _log_id(self) -> str:
        """Return the id of the log at the address now.

        Raises
        ------
        BrokerUnavailableError
            The topic that it is read from is empty although the inputs show a barrier: the log is
            being made anew.
        """
        found = await read_log_id(self._settings.kafka_bootstrap, self._id_topic)
        if found is None:
            raise BrokerUnavailableError(f"{self._id_topic}/0 has no record yet")
        return found

    def _show(self, shown: Shown) -> None:
        self.latest = shown
        self._health.details["barrier"] = str(shown.snapshot.barrier)
        self._health.details["log"] = shown.log_id
        self.fresh.set()


async def publish(reader: Reader, settings: Settings, stop: asyncio.Event, health: Health) -> None:
    """Bring each new snapshot to Redis, under its log's key, and look after it until stopped."""
    publisher = Publisher(health)
    log_id = ""
    assert settings.redis_url is not None
    async with AsyncExitStack() as stack:
        client: Redis = await stack.enter_async_context(
            open_redis(settings.redis_url, timeout_ms=settings.redis_timeout_ms)
        )
        while not stop.is_set():
            changed = await _wait(reader.fresh, stop, settings.check_interval_ms / 1000)
            if reader.latest is None:
                continue
            snapshot = reader.latest.snapshot
            if reader.latest.log_id != log_id:
                log_id, publisher = reader.latest.log_id, Publisher(health)
            store = RedisSnapshotStore(client, log_id, STORE_NAME)
            if changed:
                health.ready = await publisher.publish(store, snapshot, monotonic_ms())
            else:
                health.ready = await publisher.check(store, snapshot, monotonic_ms()) is not None
            health.details["outcomes"] = str({k.value: n for k, n in publisher.outcomes.items()})
            health.details["rewritten"] = str(publisher.rewritten)


async def _wait(fresh: asyncio.Event, stop: asyncio.Event, timeout_s: float) -> bool:
    """Wait for a new snapshot, the stop or the time; tell whether there is a new snapshot."""
    tasks = [asyncio.create_task(event.wait()) for event in (fresh, stop)]
    await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    changed = fresh.is_set()
    fresh.clear()
    return changed


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


async def serve(
    settings: Settings, stop: asyncio.Event, telemetry: Telemetry, health: Health
) -> None:
    """Run the projector until stopped.

    Raises
    ------
    SettingsError
        No Redis is named.
    TopicMismatchError
        The broker's topics are not those of the registry.
    """
    del telemetry
    if settings.redis_url is None:
        raise SettingsError("WALRAS_REDIS_URL: the snapshot service needs a Redis")
    topics = load_topics(settings.partitions)
    needed = {name: topics[name] for name in (*(s.topic for s in INPUTS), LOG_TOPIC)}
    await check_topics(settings.kafka_bootstrap, needed)
    reader = Reader(settings, topics, health)
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.run(stop))
        group.create_task(publish(reader, settings, stop, health))
