"""Following what topics say of one key: from their beginnings, then as it comes.

For a reader that decides nothing by steps: it needs the latest records of the partitions that its
keys lie in, and each change of them. Barriers are not handed over; their numbers tell how far a
topic was read, and whether it is the same log as before.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from walras_contracts.topics import Topic
from walras_runtime.decoding import decode
from walras_runtime.errors import BrokerUnavailableError
from walras_runtime.kafka.log_reading import ends, plain_consumer, read_until
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Output, Record
from walras_runtime.stage import Input

POLL_MS: Final = 200
NO_BARRIER: Final = -1


@dataclass(frozen=True, slots=True)
class Source:
    """One partition of a topic."""

    topic: Topic
    partition: int

    @property
    def place(self) -> TopicPartition:
        """Where it lies on the broker."""
        return TopicPartition(self.topic.full_name, self.partition)


@dataclass(slots=True)
class Latest:
    """What lay in the partitions when they were opened: the last record of each topic and key.

    ``barriers``: the newest barrier of each topic, -1 where there is none. ``letters``: what could
    not be decoded, for the dead-letter topic.
    """

    records: dict[tuple[str, str], Record] = field(default_factory=dict)
    barriers: dict[str, int] = field(default_factory=dict)
    letters: list[Output] = field(default_factory=list)


class _Reading:
    """Turns messages into decoded records of the keys that are wanted."""

    def __init__(
        self, service: str, sources: Sequence[Source], wanted: Callable[[str], bool]
    ) -> None:
        self._service = service
        self._sources = {source.place: source for source in sources}
        self._wanted = wanted
        self.barriers = {source.topic.name: NO_BARRIER for source in sources}

    def read(self, place: TopicPartition, message: Any) -> tuple[Record | None, Output | None]:
        topic = self._sources[place].topic
        parsed = parse_message(message, topic.name)
        if isinstance(parsed, BarrierMark):
            number = parsed.barrier.number
            self.barriers[topic.name] = max(self.barriers[topic.name], number)
            return None, None
        if not self._wanted(parsed.key):
            return None, None
        return decode(self._service, Input(topic.name), parsed, topic.events)


async def follow(
    bootstrap: str,
    service: str,
    sources: Sequence[Source],
    wanted: Callable[[str], bool],
) -> AsyncIterator[Latest | Record | Output | Mapping[str, int]]:
    """Follow the records of some keys; read_committed.

    Parameters
    ----------
    bootstrap
        Address of the broker.
    service
        Who reads; named in dead letters.
    sources
        What is read, in the order in which ties are handed over.
    wanted
        Whether the records of a key are handed over.

    Yields
    ------
    Latest
        Once, first: what was there.
    Record
        Each record behind that, decoded; a tombstone has no event.
    Output
        A dead letter, in the place of a record that does not decode.
    dict
        The newest barrier of each topic, whenever that moved.

    Raises
    ------
    BrokerUnavailableError
        The broker went away for longer than the client bears; begin again.
    PartitionStoppedError
        A record of a version that this build does not know.
    """
    reading = _Reading(service, sources, wanted)
    try:
        async with plain_consumer(bootstrap) as consumer:
            yield await _latest(consumer, sources, reading)
            consumer.resume(*(source.place for source in sources))
            told = dict(reading.barriers)
            while True:
                batches = await consumer.getmany(timeout_ms=POLL_MS)
                for source in sources:
                    for message in batches.get(source.place, ()):
                        for item in reading.read(source.place, message):
                            if item is not None:
                                yield item
                if reading.barriers != told:
                    told = dict(reading.barriers)
                    yield dict(told)
    except KafkaError as error:
        raise BrokerUnavailableError(f"{type(error).__name__}: {error}") from error


async def _latest(
    consumer: AIOKafkaConsumer, sources: Sequence[Source], reading: _Reading
) -> Latest:
    """Read up to what is there now, and leave the consumer behind it."""
    places = [source.place for source in sources]
    found = Latest()
    beginnings = await consumer.beginning_offsets(places)
    until = await ends(consumer, places)
    async for place, messages in read_until(consumer, beginnings, until):
        for message in messages:
            record, letter = reading.read(place, message)
            if record is not None:
                key = (record.topic, record.key)
                found.records.pop(key, None)
                if record.event is not None:
                    found.records[key] = record
            if letter is not None:
                found.letters.append(letter)
    for place in places:
        consumer.seek(place, until[place])
    found.barriers = dict(reading.barriers)
    return found
