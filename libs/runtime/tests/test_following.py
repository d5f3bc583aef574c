"""Following a few keys of topics on a real broker: what was there, then what comes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from walras_contracts.capacity import NodeHealthReported
from walras_contracts.topics import Topic, load_topics
from walras_launcher.kafka import KafkaBroker
from walras_runtime.errors import PartitionStoppedError
from walras_runtime.kafka.following import Latest, Source, follow
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import barrier_headers, barrier_value, event_headers
from walras_runtime.records import Barrier, Output, Record

pytestmark = pytest.mark.broker
TOPIC = load_topics()["node.health"]
PATIENCE_S = 60.0


def row(node: str, reported_ms: int | None, kind: str = NodeHealthReported.TYPE) -> Row:
    value = None
    if reported_ms is not None:
        event = NodeHealthReported(node=node, unhealthy_devices=(), reported_ms=reported_ms)
        value = event.payload()
    return (node.encode(), value, event_headers("id", b"test", kind))


def barrier(number: int) -> Row:
    made = Barrier(number, number * 1000)
    return (made.key(cyclic=True).encode(), barrier_value(made), barrier_headers(1))


class Writer:
    def __init__(self, producer: AIOKafkaProducer, topic: Topic) -> None:
        self._producer = producer
        self._topic = topic

    async def write(self, *rows: Row, commit: bool = True) -> None:
        await self._producer.begin_transaction()
        await send_rows(self._producer, {(self._topic.full_name, 0): list(rows)})
        if commit:
            await self._producer.commit_transaction()
        else:
            await self._producer.flush()
            await self._producer.abort_transaction()


@asynccontextmanager
async def writing(bootstrap: str) -> AsyncIterator[Writer]:
    await create_topics(bootstrap, {TOPIC.name: TOPIC})
    producer = make_producer(bootstrap, transactional_id="writer")
    await producer.start()
    try:
        yield Writer(producer, TOPIC)
    finally:
        await producer.stop()


def following(bootstrap: str) -> Any:
    return follow(bootstrap, "test", [Source(TOPIC, 0)], lambda key: key.startswith("n"))


def run(work: Callable[[], Any]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await work()

    asyncio.run(bounded())


def test_the_latest_of_each_wanted_key_comes_first_and_then_every_change(
    own_broker: Callable[[], KafkaBroker],
) -> None:
    bootstrap = own_broker().bootstrap

    async def work() -> None:
        async with writing(bootstrap) as log:
            await log.write(row("n1", 1), row("other", 1), row("n2", 1), barrier(0))
            await log.write(row("n1", 666), commit=False)
            await log.write(row("n1", 2), row("n2", None), barrier(1))
            async with aclosing(following(bootstrap)) as items:
                first = await anext(items)
                assert isinstance(first, Latest)
                assert list(first.records) == [("node.health", "n1")]
                kept = first.records["node.health", "n1"].event
                assert isinstance(kept, NodeHealthReported)
                assert kept.reported_ms == 2
                assert first.barriers == {"node.health": 1}

                await log.write(row("other", 9), row("n3", 3), row("n1", None), barrier(2))
                seen = [await anext(items) for _ in range(3)]
                records = [(i.key, i.event is None) for i in seen if isinstance(i, Record)]
                assert records == [("n3", False), ("n1", True)]
                assert seen[-1] == {"node.health": 2}

    run(work)


def test_an_empty_partition_has_nothing_and_no_barrier(
    own_broker: Callable[[], KafkaBroker],
) -> None:
    bootstrap = own_broker().bootstrap

    async def work() -> None:
        async with writing(bootstrap) as log, aclosing(following(bootstrap)) as items:
            first = await anext(items)
            assert (first.records, first.barriers) == ({}, {"node.health": -1})
            await log.write(row("n1", 1))
            assert (await anext(items)).key == "n1"

    run(work)


def test_what_does_not_decode_is_a_dead_letter_and_an_unknown_version_stops(
    own_broker: Callable[[], KafkaBroker],
) -> None:
    bootstrap = own_broker().bootstrap

    async def work() -> None:
        async with writing(bootstrap) as log:
            headers = event_headers("id", b"test", NodeHealthReported.TYPE)
            await log.write((b"n1", b"\x00\xff{", headers), row("n2", 1))
            async with aclosing(following(bootstrap)) as items:
                first = await anext(items)
                assert [letter.topic for letter in first.letters] == ["dead_letter"]
                assert list(first.records) == [("node.health", "n2")]
                await log.write((b"n1", b"nothing", headers))
                assert isinstance(await anext(items), Output)
                await log.write(row("n1", 1, NodeHealthReported.TYPE.replace("v1", "v2")))
                with pytest.raises(PartitionStoppedError, match="deploy a build"):
                    await anext(items)

    run(work)


def test_a_broker_that_is_killed_and_comes_back_costs_no_record(
    own_broker: Callable[[], KafkaBroker],
) -> None:
    broker = own_broker()

    async def work() -> None:
        async with aclosing(following(broker.bootstrap)) as items:
            async with writing(broker.bootstrap) as log:
                await log.write(row("n1", 1))
                first = await anext(items)
                assert list(first.records) == [("node.health", "n1")]
            broker.kill()
            broker.restart()
            async with writing(broker.bootstrap) as log:
                await log.write(row("n1", 2), row("n2", 3))
                assert [(await anext(items)).key for _ in range(2)] == ["n1", "n2"]

    run(work)
