"""Events of a broker's log: committed records, each partition in the order of its offsets."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from walras.billing_log.errors import BillingLogError
from walras.billing_log.event_files import Told
from walras.log_partitions import partition_batches, partition_consumer, pulled
from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.registry import (
    UndecodableError,
    UnknownVersionError,
    decode_inner,
    family_of,
)
from walras_contracts.topics import Topic
from walras_runtime.errors import BrokerUnavailableError
from walras_runtime.kafka.log_reading import ends
from walras_runtime.kafka.topics_admin import partition_counts
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Barrier, Record

BATCH_RECORDS: Final = 2_000


@dataclass(frozen=True, slots=True)
class TopicRead:
    """What is read of a topic.

    ``partition_key`` None: all partitions; else the one in which such records are.
    """

    topic: Topic
    wanted: frozenset[str]
    partition_key: str | None = None


Found = tuple[str, Event | None] | Barrier | None
"""Key and event (None: a tombstone), a barrier, or the end of a partition."""


def events_of_topic(bootstrap: str, read: TopicRead, told: Told) -> Iterator[Found]:
    """Yield what is wanted of a topic, and the barriers between, partition by partition.

    Never from behind the last stable offset. Runs an event loop of its own: call it from a thread
    that has none.

    Raises
    ------
    BillingLogError
        The broker does not answer, has no such topic, or a record cannot be read.
    """
    with (
        asyncio.Runner() as runner,
        closing(pulled(runner, _batches(bootstrap, read, told))) as batches,
    ):
        try:
            for messages in batches:
                if messages is None:
                    yield None
                    continue
                for message in messages:
                    found = _found(message, read)
                    if found is not None:
                        yield found
        except (KafkaError, BrokerUnavailableError, OSError) as error:
            raise BillingLogError(f"the broker {bootstrap} does not answer: {error}") from error


async def _batches(
    bootstrap: str, read: TopicRead, told: Told
) -> AsyncGenerator[list[Any] | None, None]:
    """Yield batches of messages; None ends a partition."""
    name = read.topic.full_name
    partitions = await _partitions(bootstrap, read)
    async with AsyncExitStack() as stack:
        consumer = await stack.enter_async_context(partition_consumer(bootstrap))
        tps = [TopicPartition(name, partition) for partition in partitions]
        begin = await consumer.beginning_offsets(tps)
        end = await ends(consumer, tps)
        total = sum(end[tp] - begin[tp] for tp in tps)
        done = 0
        for tp in tps:
            batches = partition_batches(consumer, tp, begin[tp], end[tp], BATCH_RECORDS)
            async for messages, advanced in batches:
                done += advanced
                told(done, total)
                yield messages
            yield None


async def _partitions(bootstrap: str, read: TopicRead) -> Sequence[int]:
    name = read.topic.full_name
    try:
        counts = await partition_counts(bootstrap, [name])
    except ValueError as error:
        raise BillingLogError(f"{bootstrap!r} is no address of a broker: {error}") from error
    if name not in counts:
        raise BillingLogError(f"the broker {bootstrap} has no topic {name}")
    if read.partition_key is None:
        return range(counts[name])
    return [partition_of(read.partition_key, counts[name])]


def _found(message: Any, read: TopicRead) -> Found:
    item = parse_message(message, read.topic.name)
    if isinstance(item, BarrierMark):
        return item.barrier
    if item.value is None:
        return item.key, None
    if item.type not in read.wanted and not _is_family(item.type, read.wanted):
        return None
    try:
        return item.key, decode_inner(item.type, item.value, read.wanted)
    except (UndecodableError, UnknownVersionError) as error:
        raise BillingLogError(f"{_where(item)}: {error}") from error


def _is_family(kind: str, events: Collection[str]) -> bool:
    # A version that this build does not know must be an error, not be passed over.
    return any(family_of(kind) == family_of(each) for each in events)


def _where(record: Record) -> str:
    return f"{record.topic}/{record.partition}@{record.offset}"
