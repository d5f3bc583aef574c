"""Doing something outside about each record of a topic, at least once.

The processes of one group share the partitions. A partition's position is the group's committed
offset: it moves only past what is done, so that whatever dies, its successor does what was left
again. An older owner cannot move it back: the broker refuses a commit of an older generation.

========================================  ==========================================================
dies                                      happens
========================================  ==========================================================
before an effect                          the record is read again
after the effect, before the commit       the effect is repeated: it must be told from the first
after the commit                          nothing
a process that is only slow               its next contact with the broker tells it that the
                                          partition is another's; until then both work
the broker                                what was read is gone on with; the position follows later
========================================  ==========================================================
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from walras_contracts.identifiers import partition_of
from walras_contracts.topics import Topic
from walras_runtime.clock import monotonic_ms
from walras_runtime.decoding import decode
from walras_runtime.errors import BrokerUnavailableError, PartitionStoppedError
from walras_runtime.health import Health
from walras_runtime.kafka import tolerant_records
from walras_runtime.kafka.opening import opened
from walras_runtime.kafka.producing import make_producer, send_rows
from walras_runtime.kafka.wire import BarrierMark, event_headers, parse_message
from walras_runtime.records import Output, Record
from walras_runtime.stage import Input

tolerant_records.install()

POLL_MS: Final = 100
"""How long one look for records may wait; so much later at most the position follows the work."""
LEAVE_MS: Final = 10_000
"""So long a process that lives may take to end what it is at, before another one begins."""
RETRY_S: Final = 2.0
COMMIT_TIMEOUT_S: Final = 5.0
"""The client would try for ever while the broker is away."""
LETTER_TIMEOUT_S: Final = 30.0
NOTE_BYTES: Final = 4_000
"""The broker takes notes of 4096 bytes, unless it is told otherwise."""
KEEP_MS: Final = 3_600_000
"""The broker forgets a position that was not committed for days, also of a topic that is silent."""
PART: Final = "kafka"

logger = structlog.get_logger("walras")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the effects of a partition have come.

    Everything before ``offset`` is done. ``note`` is what the effects want to know besides when
    they go on from there, text of at most :data:`NOTE_BYTES` bytes.
    """

    offset: int
    note: str = ""


class Effects(Protocol):
    """What is done about the records of the partitions that are ours."""

    def begin(self, partition: int, start: Progress) -> int:
        """Take a partition on from where it was left; return the offset to read from."""

    def resume(self, partition: int) -> int:
        """Go on with a partition that nobody has moved; return the offset to read from."""

    def take(self, record: Record, stamp_ms: int) -> None:
        """Take the next record of a partition; ``stamp_ms`` is the broker's stamp (wall clock)."""

    def passed(self, partition: int, offset: int) -> None:
        """Note that there is nothing to do about what lies before an offset and was not taken."""

    def progress(self, partition: int) -> Progress:
        """Return how far a partition has come."""

    def full(self) -> bool:
        """Whether nothing more should be taken for now."""

    async def end(self) -> None:
        """Stop what is going on: no partition is ours any more. It may be called again."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A topic that a service follows, and how.

    Parameters
    ----------
    bootstrap
        Address of the broker.
    service
        Who reads; it names the group, and is named in dead letters.
    topic, letters
        What is followed, and the dead-letter topic.
    session_ms
        After this silence of a process another one takes its partitions.
    """

    bootstrap: str
    service: str
    topic: Topic
    letters: Topic
    session_ms: int

    @property
    def group(self) -> str:
        """The group whose offsets are the positions."""
        return f"walras.{self.service}"


async def follow(followed: Followed, effects: Effects, stop: asyncio.Event, health: Health) -> None:
    """Hand over the records of the partitions that are ours until stopped; read_committed.

    What does not decode goes to the dead-letter topic before the position passes it. A record of
    an unknown version stops its partition, red, until a build that knows it is deployed.
    """
    committed: dict[int, Progress] = {}
    health.waiting.add(followed.group)
    while not stop.is_set():
        try:
            async with (
                opened(_consumer(followed)) as consumer,
                opened(make_producer(followed.bootstrap)) as producer,
            ):
                member = _Member(followed, effects, health, consumer, producer, committed=committed)
                try:
                    await member.work(stop)
                finally:
                    await member.leave()
        except (KafkaError, BrokerUnavailableError, TimeoutError) as error:
            health.fail(PART, f"{type(error).__name__}: {error}")
            logger.warning("log_not_followed", topic=followed.topic.name, why=repr(error))
            await _pause(stop, RETRY_S)


def _consumer(followed: Followed) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        bootstrap_servers=followed.bootstrap,
        group_id=followed.group,
        session_timeout_ms=followed.session_ms,
        heartbeat_interval_ms=max(100, followed.session_ms // 6),
        rebalance_timeout_ms=max(LEAVE_MS, followed.session_ms),
        # Sticky: a process that joins must not take a partition from one that works.
        partition_assignment_strategy=(StickyPartitionAssignor,),
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )


class _Member(ConsumerRebalanceListener):  # type: ignore[misc] # untyped base
    """One membership in the group: what is assigned, taken and committed."""

    def __init__(
        self,
        followed: Followed,
        effects: Effects,
        health: Health,
        consumer: AIOKafkaConsumer,
        producer: AIOKafkaProducer,
        *,
        committed: dict[int, Progress],
    ) -> None:
        self._followed = followed
        self._effects = effects
        self._health = health
        self._consumer = consumer
        self._producer = producer
        self._committed = committed
        self._committed_ms = 0
        self._assigned: set[TopicPartition] | None = None
        self._ours: set[TopicPartition] = set()
        self._stopped: set[TopicPartition] = set()
        self._committing = asyncio.Lock()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Stop the work, and leave its position to who gets the partitions."""
        del revoked
        await self.leave()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Note what is ours; it is begun outside of this callback, whose errors nobody sees."""
        self._assigned = set(assigned)

    async def work(self, stop: asyncio.Event) -> None:
        """Follow what is assigned until stopped."""
        self._consumer.subscribe([self._followed.topic.full_name], listener=self)
        while not stop.is_set():
            await self._begin()
            self._hold_back()
            batches = await self._consumer.getmany(timeout_ms=POLL_MS)
            for tp, messages in batches.items():
                await self._take(tp, messages)
            for tp in sorted(self._ours - self._stopped):
                # Behind the last record there may be marks of transactions.
                self._effects.passed(tp.partition, await self._consumer.position(tp))
            await self._commit()

    async def leave(self) -> None:
        """Stop the work and commit what was done, if that is still ours to say."""
        self._assigned = None
        await self._effects.end()
        self._health.waiting.add(self._followed.group)
        await self._commit()
        self._ours.clear()

    async def _begin(self) -> None:
        """Begin what was assigned."""
        assigned = self._assigned
        if assigned is None:
            return
        held = await self._read_positions(assigned)
        beginnings = await self._consumer.beginning_offsets(list(assigned))
        if self._assigned is not assigned:
            return  # it has been revoked meanwhile
        self._assigned = None
        self._stopped.clear()
        for tp in sorted(assigned):
            first, start = beginnings[tp], held.get(tp)
            if start is not None and start == self._committed.get(tp.partition):
                offset = self._effects.resume(tp.partition)
            else:
                self._committed.pop(tp.partition, None)
                offset = self._effects.begin(tp.partition, start or Progress(first))
            if start is not None and offset < first:
                logger.error("records_never_read_are_gone", partition=tp.partition, before=first)
                offset = self._effects.begin(tp.partition, Progress(first))
            self._consumer.seek(tp, offset)
        self._ours = set(assigned)
        others = {*range(self._followed.topic.partitions)} - {tp.partition for tp in assigned}
        for partition in others:  # whether one is stopped is told by who has it
            self._health.clear(self._part(partition))
        self._health.clear(PART)
        if assigned:
            self._health.ready = True
            self._health.waiting.discard(self._followed.group)
        logger.info("following", partitions=sorted(tp.partition for tp in assigned))

    async def _read_positions(
        self, assigned: set[TopicPartition]
    ) -> Mapping[TopicPartition, Progress]:
        # The consumer's own look-up leaves the note out.
        client = AIOKafkaAdminClient(bootstrap_servers=self._followed.bootstrap)
        async with opened(client) as admin:
            held = await admin.list_consumer_group_offsets(self._followed.group)
        return {
            tp: Progress(held[tp].offset, held[tp].metadata)
            for tp in assigned
            if tp in held and held[tp].offset >= 0
        }

    def _hold_back(self) -> None:
        """Read on only where there is room; looking for records keeps the membership alive."""
        open_ones = self._ours - self._stopped
        held = self._ours if self._effects.full() else self._stopped & self._ours
        self._consumer.pause(*held)
        self._consumer.resume(*(open_ones - held))

    async def _take(self, tp: TopicPartition, messages: list[Any]) -> None:
        topic = self._followed.topic
        for message in messages:
            if tp not in self._ours:
                return
            parsed = parse_message(message, topic.name)
            if isinstance(parsed, BarrierMark):
                continue
            try:
                record, letter = decode(
                    self._followed.service, Input(topic.name), parsed, topic.events
                )
            except PartitionStoppedError as error:
                self._stopped.add(tp)
                self._health.fail(self._part(tp.partition), f"{error.code}: {error}")
                logger.error("partition_stopped", code=error.code, why=str(error))
                return
            if letter is not None:
                await self._send_letter(letter)
                logger.warning("dead_letter", topic=topic.name, offset=message.offset)
            # Nobody takes the partition from us between this look and the next wait.
            if record is not None and tp in self._ours:
                self._effects.take(record, message.timestamp)

    def _part(self, partition: int) -> str:
        """Return the part of the health that tells that a partition is stopped."""
        return f"{self._followed.topic.name}/{partition}"

    async def _send_letter(self, letter: Output) -> None:
        """Write a dead letter; returned when the broker has acknowledged it."""
        topic = self._followed.letters
        row = (
            letter.key.encode(),
            letter.payload,
            event_headers(
                f"{self._followed.service}/{letter.key}",
                f"walras/{self._followed.service}".encode(),
                letter.type,
            ),
        )
        place = (topic.full_name, partition_of(letter.partition_key, topic.partitions))
        for future in await send_rows(self._producer, {place: [row]}):
            await asyncio.wait_for(future, LETTER_TIMEOUT_S)

    async def _commit(self) -> None:
        """Commit where positions have moved, and now and then where they have not."""
        async with self._committing:
            now_ms = monotonic_ms()
            again = now_ms - self._committed_ms >= KEEP_MS
            progress = {tp: self._effects.progress(tp.partition) for tp in sorted(self._ours)}
            moved = {
                tp: each
                for tp, each in progress.items()
                if again or each != self._committed.get(tp.partition)
            }
            if not moved:
                return
            offsets = {tp: OffsetAndMetadata(each.offset, each.note) for tp, each in moved.items()}
            try:
                await asyncio.wait_for(self._consumer.commit(offsets), COMMIT_TIMEOUT_S)
            except (KafkaError, TimeoutError) as error:
                # Not ours any more, or the broker is away: the next contact tells which.
                logger.warning("position_not_committed", why=repr(error))
                self._health.fail(PART, f"position not committed: {error!r}")
                return
            self._health.clear(PART)
            self._committed_ms = now_ms
            self._committed.update({tp.partition: each for tp, each in moved.items()})


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
