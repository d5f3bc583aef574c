"""The log of a broker as an audit reads it: committed records, up to one moment in all topics."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from walras.audit.log_view import AUDITED_TOPICS, NO_BARRIER, AuditError, Entry
from walras.log_partitions import partition_batches, partition_consumer, pulled
from walras_contracts.topics import load_topics
from walras_runtime.errors import BrokerUnavailableError
from walras_runtime.kafka.log_reading import ends
from walras_runtime.kafka.topics_admin import partition_counts
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import BARRIER_TYPE

BATCH_RECORDS: Final = 2_000
TAIL_RECORDS: Final = 500
"""How far from its end a partition's last barrier is looked for first."""


class BrokerLog:
    """A broker's log up to where each partition ended when it was opened.

    Use :func:`broker_log`.
    """

    def __init__(self, bootstrap: str, runner: asyncio.Runner, consumer: AIOKafkaConsumer) -> None:
        self._bootstrap = bootstrap
        self._runner = runner
        self._consumer = consumer
        self._counts: dict[str, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._begins: dict[TopicPartition, int] = {}
        self._names = {name: topic.full_name for name, topic in load_topics().items()}

    async def look(self) -> None:
        """Find the topics, their partitions and where those begin and end."""
        names = [self._names[topic] for topic in AUDITED_TOPICS]
        counts = await partition_counts(self._bootstrap, names)
        self._counts = {topic: counts.get(self._names[topic], 0) for topic in AUDITED_TOPICS}
        tps = [
            TopicPartition(self._names[topic], partition)
            for topic, count in self._counts.items()
            for partition in range(count)
        ]
        self._ends = await ends(self._consumer, tps)
        self._begins = await self._consumer.beginning_offsets(tps)
        compacted = {t.full_name for t in load_topics().values() if t.cleanup == "compact"}
        for tp, begin in self._begins.items():
            if begin and tp.topic not in compacted:
                raise AuditError(
                    f"{tp.topic}/{tp.partition} begins at offset {begin}: retention has taken what "
                    "an audit starts from"
                )

    def partitions(self, topic: str) -> range:
        """Return the partitions of a topic; none where the broker does not have it."""
        return range(self._counts[topic])

    def size(self, topic: str, partition: int) -> int:
        """Return about how many records a partition holds."""
        tp = self._place(topic, partition)
        return self._ends[tp] - self._begins[tp]

    def entries(self, topic: str, partition: int) -> Iterator[Entry]:
        """Yield what a partition holds, in order; barriers of a replaced writer are left out."""
        tp = self._place(topic, partition)
        epoch = -1
        for message in self._messages(tp, self._begins[tp]):
            item = parse_message(message, topic)
            if not isinstance(item, BarrierMark):
                yield Entry(item.offset, item.key, item.type, item.value)
            elif item.epoch >= epoch:
                epoch = item.epoch
                mark = (item.barrier.number, item.barrier.market_time_ms)
                yield Entry(item.offset, "", BARRIER_TYPE, b"", mark)

    def last_barrier(self, topic: str, partition: int) -> int:
        """Return the number of the last barrier of a partition; -1: it has none."""
        tp = self._place(topic, partition)
        tail = TAIL_RECORDS
        while True:
            begin = max(self._begins[tp], self._ends[tp] - tail)
            found = NO_BARRIER
            for message in self._messages(tp, begin):
                item = parse_message(message, topic)
                if isinstance(item, BarrierMark):
                    found = max(found, item.barrier.number)
            if found != NO_BARRIER or begin == self._begins[tp]:
                return found
            tail *= 8

    def _place(self, topic: str, partition: int) -> TopicPartition:
        return TopicPartition(self._names[topic], partition)

    def _messages(self, tp: TopicPartition, begin: int) -> Iterator[Any]:
        batches = partition_batches(self._consumer, tp, begin, self._ends[tp], BATCH_RECORDS)
        try:
            with closing(pulled(self._runner, batches)) as found:
                for messages, _ in found:
                    yield from messages
        except (KafkaError, BrokerUnavailableError, OSError) as error:
            raise AuditError(f"the broker {self._bootstrap} does not answer: {error}") from error


@contextmanager
def broker_log(bootstrap: str) -> Iterator[BrokerLog]:
    """Open the log of a broker. Runs an event loop: call it from a thread that has none.

    Raises
    ------
    AuditError
        The broker does not answer, or retention has cut a topic that is kept for ever.
    """
    with asyncio.Runner() as runner:
        opened = partition_consumer(bootstrap)
        try:
            consumer = runner.run(opened.__aenter__())
        except (KafkaError, BrokerUnavailableError, OSError) as error:
            raise AuditError(f"the broker {bootstrap} does not answer: {error}") from error
        except ValueError as error:
            raise AuditError(f"{bootstrap!r} is no address of a broker: {error}") from error
        try:
            log = BrokerLog(bootstrap, runner, consumer)
            try:
                runner.run(log.look())
            except (KafkaError, BrokerUnavailableError, OSError) as error:
                raise AuditError(f"the broker {bootstrap} does not answer: {error}") from error
            yield log
        finally:
            runner.run(opened.__aexit__(None, None, None))
