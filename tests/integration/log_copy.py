"""Feeds a broker from a log in memory, and reads a broker's topics for comparison."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaProducer, TopicPartition

from walras.report.digests import without_frame
from walras_contracts.cycle_frames import FoldedMarket
from walras_contracts.market import CycleFramed
from walras_contracts.topics import Topic
from walras_runtime.kafka.log_reading import ends, plain_consumer, read_until
from walras_runtime.kafka.producing import Row, make_producer, send_rows
from walras_runtime.kafka.wire import barrier_headers, barrier_value, event_headers
from walras_runtime.memory.log import Entry, MemoryLog
from walras_runtime.records import BARRIER_KEY_PREFIX

Line = tuple[str, bytes | None]


def row_of(entry: Entry) -> Row:
    """Return an entry as a record for the broker."""
    if entry.barrier is not None:
        return entry.key.encode(), barrier_value(entry.barrier), barrier_headers(1)
    headers = event_headers(entry.event_id or "", (entry.source or "").encode(), entry.type)
    return entry.key.encode(), entry.payload, headers


class Feed:
    """Tells a broker what a log in memory holds, barrier by barrier."""

    def __init__(self, producer: AIOKafkaProducer, log: MemoryLog, names: Iterable[str]) -> None:
        self._producer = producer
        self._log = log
        self._told = {(name, p): -1 for name in names for p in log.partitions(name)}
        self._next = dict.fromkeys(self._told, 0)

    def partitions(self) -> list[tuple[str, int]]:
        """Return what is fed, topic and partition."""
        return sorted(self._told)

    async def write(self, number: int, *, held: tuple[str, int] | None = None) -> None:
        """Write all that is not written yet, up to barrier ``number`` of each partition.

        One partition's barrier may be ``held`` back, with what came before it written: then the
        step is begun and cannot be completed.
        """
        rows: dict[tuple[str, int], list[Row]] = {}
        for name, partition in self._told:
            found = self._take(name, partition, number, held=(name, partition) == held)
            rows[self._log.topics[name].full_name, partition] = [row_of(entry) for entry in found]
        for future in await send_rows(self._producer, rows):
            await future

    def _take(self, name: str, partition: int, number: int, *, held: bool) -> list[Entry]:
        place, found = (name, partition), []
        for entry in self._log.read(name, partition, self._next[place]):
            mark = number if entry.barrier is None else entry.barrier.number
            if self._told[place] >= number or mark > number:
                break
            if entry.barrier is not None and mark == number and held:
                break
            found.append(entry)
            self._next[place] = entry.offset + 1
            if entry.barrier is not None:
                self._told[place] = mark
        return found


@asynccontextmanager
async def feeding(log: MemoryLog, bootstrap: str, names: Iterable[str]) -> AsyncIterator[Feed]:
    """Open a feed of the named topics."""
    producer = make_producer(bootstrap)
    await producer.start()
    try:
        yield Feed(producer, log, names)
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


def as_decided(name: str, found: dict[int, list[Line]]) -> dict[int, list[Line]]:
    """Return a topic's records without what a restart may write another way.

    A service that was killed frames whole markets next, where one that lives frames changes: heads
    lose their frame members, and frames are folded into the market that they make up.
    """
    if name == "cycles":
        return {
            p: [(key, value and without_frame(value)) for key, value in lines]
            for p, lines in found.items()
        }
    if name == "cycles.frames":
        return {p: _folded(lines) for p, lines in found.items()}
    return found


def _folded(lines: list[Line]) -> list[Line]:
    markets: dict[str, FoldedMarket] = {}
    folded: list[Line] = []
    for key, value in lines:
        if key.startswith(BARRIER_KEY_PREFIX) or value is None:
            folded.append((key, value))
            continue
        frame = CycleFramed.model_validate_json(value)
        market = markets.setdefault(frame.market, FoldedMarket(frame.market))
        if market.apply(frame):
            rows = (sorted(market.teams.items()), sorted(market.jobs.items()))
            folded.append((f"{frame.market}/{frame.cycle}", repr(rows).encode()))
    return folded
