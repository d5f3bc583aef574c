"""Copies topics of a log in memory to a broker, and reads a broker's topics for comparison."""

from collections.abc import Iterable

from aiokafka import TopicPartition

from walras_contracts.topics import Topic
from walras_runtime.kafka.log_reading import ends, plain_consumer, read_until
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.wire import barrier_headers, barrier_value, event_headers
from walras_runtime.memory.log import Entry, MemoryLog

Line = tuple[str, bytes | None]


def row_of(entry: Entry) -> Row:
    """Return an entry as a record for the broker."""
    if entry.barrier is not None:
        return entry.key.encode(), barrier_value(entry.barrier), barrier_headers(1)
    headers = event_headers(entry.event_id or "", (entry.source or "").encode(), entry.type)
    return entry.key.encode(), entry.payload, headers


async def copy_topics(log: MemoryLog, bootstrap: str, names: Iterable[str]) -> None:
    """Write all entries of the named topics to a broker, in order."""
    producer = make_producer(bootstrap)
    await producer.start()
    try:
        for name in names:
            topic = log.topics[name]
            rows = {
                (topic.full_name, p): [row_of(e) for e in log.read(name, p, 0)]
                for p in log.partitions(name)
            }
            for future in await send_rows(producer, rows):
                await future
    finally:
        await producer.stop()


def decided(log: MemoryLog, name: str) -> dict[int, list[Line]]:
    """Return key and payload of what a topic's producer wrote, by partition."""
    barriers_too = log.topics[name].barriers == "producer"
    return {
        p: [
            (e.key, barrier_value(e.barrier) if e.barrier is not None else e.payload)
            for e in log.read(name, p, 0)
            if barriers_too or e.barrier is None
        ]
        for p in log.partitions(name)
    }


async def read_back(bootstrap: str, topic: Topic) -> dict[int, list[Line]]:
    """Return key and value of all committed records of a topic, by partition."""
    found: dict[int, list[Line]] = {p: [] for p in range(topic.partitions)}
    async with plain_consumer(bootstrap) as consumer:
        tps = [TopicPartition(topic.full_name, p) for p in found]
        begin = await consumer.beginning_offsets(tps)
        async for tp, messages in read_until(consumer, begin, await ends(consumer, tps)):
            found[tp.partition].extend((m.key.decode(), m.value) for m in messages)
    return found
