"""The reader's file outlives a foreign Redis; a broker without the topics is a fault."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from walras_client.disk import read_file, write_file
from walras_client.kafka_source import LOG_TOPIC, read_market
from walras_client.ladder import Answer, Sighting, Source
from walras_client.reader import QuotaReader, ReaderOptions
from walras_client.redis_source import STORE_NAME
from walras_client.sheets import FloorSheet, Place, Quota, QuotaSheet
from walras_contracts.topics import load_topics
from walras_launcher.kafka import KafkaBroker
from walras_launcher.running import Redis
from walras_runtime.kafka.producing import make_producer
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.records import Barrier
from walras_runtime.redis.snapshot_store import RedisSnapshotStore, open_redis
from walras_runtime.redis.versioned import Stamp, Versioned
from walras_snapshot.core import body
from walras_snapshot.state import SnapshotState

pytestmark = pytest.mark.broker

NOW_MS = 1_000_000
HELD = Sighting(
    Source.DISK,
    QuotaSheet(Place("mine", 1, 1, 1, NOW_MS), {"a": {"gpu": Quota(5)}}, {"gpu": 9}, {"a": 1}),
    FloorSheet(Place("mine", 1, 1, 1, NOW_MS), {"a": {"gpu": 3}}),
)


def asked(redis: Redis, file: Path, *, log_id: str | None = None) -> Answer:
    options = ReaderOptions(redis_url=redis.url, file=file, log_id=log_id)
    return asyncio.run(QuotaReader(options, now_ms=lambda: NOW_MS).read("a"))


async def publish(url: str, log_id: str) -> None:
    """Put a snapshot of another log into Redis, as the only one."""
    async with open_redis(url) as client:
        await client.flushall()
        fields = {
            "body": body(SnapshotState(), Barrier(9, 9 * 60_000), 1),
            "published_at_ms": b"%d" % NOW_MS,
        }
        store = RedisSnapshotStore(client, log_id, STORE_NAME)
        await store.write(Versioned(Stamp(7, 9, 9), fields))


def test_a_foreign_redis_neither_answers_nor_erases_the_file(
    redis_server: Redis, tmp_path: Path
) -> None:
    file = tmp_path / "quota.json"
    write_file(file, HELD)
    asyncio.run(publish(redis_server.url, "foreign"))
    found = asked(redis_server, file)
    assert (found.source, found.quotas) == (Source.DISK, {"gpu": Quota(5)})
    assert dict(found.tried)[Source.SNAPSHOT] == "other_log"
    assert read_file(file) == HELD
    # Where the log is named, the file follows it.
    asked(redis_server, file, log_id="foreign")
    kept = read_file(file)
    assert kept.quotas is not None
    assert kept.quotas.place.log_id == "foreign"


def test_a_file_that_cannot_be_read_is_not_replaced_by_a_snapshot_that_nobody_named(
    redis_server: Redis, tmp_path: Path
) -> None:
    asyncio.run(publish(redis_server.url, "foreign"))
    file = tmp_path / "quota.json"
    file.symlink_to(file)
    found = asked(redis_server, file)
    assert dict(found.tried)[Source.DISK] == "file_not_readable"
    assert file.is_symlink()


async def only(bootstrap: str, *names: str) -> None:
    """Make some of the topics, and write to the one that tells whether there is a log."""
    await create_topics(bootstrap, {name: load_topics()[name] for name in names})
    producer = make_producer(bootstrap)
    await producer.start()
    await producer.send_and_wait(load_topics()[LOG_TOPIC].full_name, b"{}", partition=0)
    await producer.stop()


def test_a_broker_without_the_topics_is_a_fault_with_a_code(
    own_broker: Callable[[], KafkaBroker],
) -> None:
    bootstrap = own_broker().bootstrap
    found, log_id = asyncio.run(read_market(bootstrap, timeout_ms=30_000))
    assert (found, log_id) == (Sighting(Source.MARKET, fault="topic_mismatch"), None)
    asyncio.run(only(bootstrap, LOG_TOPIC, "supply"))
    found, _ = asyncio.run(read_market(bootstrap, timeout_ms=30_000))
    assert found.fault == "topic_mismatch"
