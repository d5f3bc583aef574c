"""Cycles of a broker's log: committed records up to the last barrier that both topics show."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from walras.archive.directory import Progress
from walras.archive.recorded_cycle import (
    ArchiveError,
    RecordedCycle,
    RecordedEvent,
    grouped,
    place_of,
)
from walras.log_partitions import partition_batches, partition_consumer, pulled
from walras_contracts.market import CycleFramed, CycleRecorded
from walras_contracts.registry import UndecodableError, UnknownVersionError, decode_inner, model_of
from walras_contracts.topics import Topic, load_topics
from walras_runtime.errors import BrokerUnavailableError
from walras_runtime.kafka.log_reading import ends
from walras_runtime.kafka.topics_admin import partition_counts
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Record

ACCEPTED: Final = frozenset({CycleRecorded.TYPE, CycleFramed.TYPE})
BATCH_RECORDS: Final = 200
"""A part of a frame has up to 512 KB: so many records at once are 100 MB at most."""


@dataclass
class _Reading:
    """How far all topics together have been read, in records."""

    progress: Progress
    total: int = 0
    done: int = 0

    def expect(self, records: int) -> None:
        self.total += records
        self.progress(self.done, self.total)

    def advance(self, records: int) -> None:
        self.done += records
        self.progress(self.done, self.total)


@dataclass(frozen=True, slots=True)
class _Step:
    """What lies before a barrier; ``oldest`` where retention may have taken some of it."""

    number: int
    events: list[RecordedEvent]
    oldest: bool


def cycles_of_log(bootstrap: str, progress: Progress) -> Iterator[RecordedCycle]:
    """Yield the cycles of a log in order, each when it is read, markets of a cycle by id.

    Never from behind the last stable offset, and of a cycle only what lies before its barrier in
    both topics: what is yielded was committed in one transaction. Where retention has cut a topic,
    the oldest cycles come without what is gone, marked so. Runs an event loop of its own: call it
    from a thread that has none.

    Parameters
    ----------
    bootstrap
        The broker, host:port.
    progress
        Told how many records were read, of how many.

    Raises
    ------
    ArchiveError
        The broker does not answer, its topics are others, or a record cannot be read.
    """
    with (
        asyncio.Runner() as runner,
        closing(pulled(runner, _steps_of_log(bootstrap, _Reading(progress)))) as steps,
    ):
        try:
            for step in steps:
                yield from grouped(sorted(step.events, key=_order), oldest=step.oldest)
        except (KafkaError, BrokerUnavailableError, OSError) as error:
            raise ArchiveError(f"the broker {bootstrap} does not answer: {error}") from error


def _order(event: RecordedEvent) -> tuple[int, str, int]:
    cycle, part = place_of(event)
    return cycle, event.market, part


async def _steps_of_log(bootstrap: str, reading: _Reading) -> AsyncGenerator[_Step, None]:
    """Yield the steps of both topics together, as far as both go."""
    registry = load_topics()
    heads, parts = registry[CycleRecorded.TOPIC], registry[CycleFramed.TOPIC]
    await _check(bootstrap, (heads, parts))
    async with AsyncExitStack() as stack:
        streams = []
        for topic in (heads, parts):
            consumer = await stack.enter_async_context(partition_consumer(bootstrap))
            stream = _steps(consumer, topic, reading)
            stack.push_async_callback(stream.aclose)
            streams.append(stream)
        left, right = [await anext(stream, None) for stream in streams]
        while left is not None and right is not None:
            # Equal but at the beginning, where retention has cut one topic later than the other.
            number = min(left.number, right.number)
            events: list[RecordedEvent] = []
            oldest = left.oldest or right.oldest
            if left.number == number:
                events += left.events
                left = await anext(streams[0], None)
            if right.number == number:
                events += right.events
                right = await anext(streams[1], None)
            yield _Step(number, events, oldest)


async def _check(bootstrap: str, topics: Iterable[Topic]) -> None:
    names = [topic.full_name for topic in topics]
    try:
        counts = await partition_counts(bootstrap, names)
    except ValueError as error:
        raise ArchiveError(f"{bootstrap!r} is no address of a broker: {error}") from error
    for name in names:
        if name not in counts:
            raise ArchiveError(f"the broker {bootstrap} has no topic {name}")
        if counts[name] != 1:
            raise ArchiveError(f"{name} has {counts[name]} partitions, its cycles no one order")


async def _steps(
    consumer: AIOKafkaConsumer, topic: Topic, reading: _Reading
) -> AsyncGenerator[_Step, None]:
    """Yield the steps of a topic that its barriers end; what lies behind the last is left."""
    events: list[RecordedEvent] = []
    last = -1
    tp = TopicPartition(topic.full_name, 0)
    begin = (await consumer.beginning_offsets([tp]))[tp]
    # A topic that retention has cut begins anywhere within a step.
    oldest = begin > 0
    async for message in _messages(consumer, tp, begin, reading):
        item = parse_message(message, topic.name)
        if isinstance(item, BarrierMark):
            if item.barrier.number > last:
                last = item.barrier.number
                yield _Step(last, events, oldest)
                events, oldest = [], False
        elif (event := _decoded(item)) is not None:
            events.append(event)


async def _messages(
    consumer: AIOKafkaConsumer, tp: TopicPartition, begin: int, reading: _Reading
) -> AsyncGenerator[Any, None]:
    end = (await ends(consumer, [tp]))[tp]
    reading.expect(end - begin)
    async for messages, advanced in partition_batches(consumer, tp, begin, end, BATCH_RECORDS):
        for message in messages:
            yield message
        reading.advance(advanced)


def _decoded(record: Record) -> RecordedEvent | None:
    """Return an event of a cycle; None for what else is on its topic."""
    try:
        model_of(record.type, ACCEPTED)
    except UndecodableError:
        return None
    except UnknownVersionError as error:
        raise ArchiveError(f"{_where(record)}: {error}") from error
    try:
        event = decode_inner(record.type, record.value or b"", ACCEPTED)
    except UndecodableError as error:
        raise ArchiveError(f"{_where(record)}: {error}") from error
    assert isinstance(event, CycleRecorded | CycleFramed)
    return event


def _where(record: Record) -> str:
    return f"{record.topic}/{record.partition}@{record.offset}"
