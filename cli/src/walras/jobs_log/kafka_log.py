"""The log of a broker: committed records alone."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from walras.archive.progress import progress_bar
from walras.instance_arguments import say
from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.items import Item, Place, Watch
from walras.jobs_log.records import UnreadableError, item_of
from walras.log_partitions import partition_batches, partition_consumer, pulled
from walras_contracts.event import Event
from walras_contracts.identifiers import partition_of
from walras_contracts.topics import load_topics
from walras_runtime.cancelling import heeded
from walras_runtime.errors import BrokerUnavailableError
from walras_runtime.kafka.log_reading import ends
from walras_runtime.kafka.opening import opened
from walras_runtime.kafka.producing import make_producer, send_rows
from walras_runtime.kafka.topics_admin import partition_counts
from walras_runtime.kafka.wire import event_headers

BATCH_RECORDS: Final = 2_000
FIRST_STRETCH: Final = 200
STRETCH_GROWS: Final = 4
LONGEST_STRETCH: Final = 20_000
FOLLOW_POLL_MS: Final = 250
PROBE_AFTER_S: Final = 15.0
"""After so long without a record a follower asks whether the broker is still there."""
ANSWER_S: Final = 10.0
WRITE_TIMEOUT_S: Final = 30.0


class KafkaLog:
    """Use :func:`open_log`."""

    def __init__(
        self,
        bootstrap: str,
        runner: asyncio.Runner,
        consumer: AIOKafkaConsumer,
        counts: dict[str, int],
        probe_after_s: float,
    ) -> None:
        self._bootstrap = bootstrap
        self._runner = runner
        self._consumer = consumer
        self._counts = counts
        self._probe_after_s = probe_after_s
        self._positions: dict[TopicPartition, int] = {}
        self._names = {topic.full_name: name for name, topic in load_topics().items()}
        self._unreadable: list[str] = []

    def read(
        self, topic: str, *models: type[Event], partition_key: str | None = None
    ) -> Iterator[Item]:
        """Yield what is there, with a bar on standard error where that is a terminal."""
        tps = self._partitions(topic, partition_key)
        begins, until = self._run(self._borders(tps))
        total = sum(until[tp] - begins[tp] for tp in tps)
        done = 0
        with progress_bar(f"reading {topic}") as told:
            for tp in tps:
                for messages, advanced in self._batches(tp, begins[tp], until[tp]):
                    done += advanced
                    told(done, total)
                    yield from self._items(messages, models)
                self._positions[tp] = until[tp]

    def backwards(
        self, topic: str, *models: type[Event], partition_key: str
    ) -> Iterator[Sequence[Item]]:
        """Yield a partition in stretches that become longer."""
        (tp,) = self._partitions(topic, partition_key)
        begins, until = self._run(self._borders([tp]))
        end, length = until[tp], FIRST_STRETCH
        while end > begins[tp]:
            begin = max(begins[tp], end - length)
            found: list[Item] = []
            for messages, _ in self._batches(tp, begin, end):
                found += self._items(messages, models)
            yield found
            end, length = begin, min(length * STRETCH_GROWS, LONGEST_STRETCH)

    def follow(self, watches: Iterable[Watch]) -> Generator[Item | None, None, None]:
        """Yield what comes; an error where nothing comes and the broker does not answer."""
        models: dict[TopicPartition, tuple[type[Event], ...]] = {}
        for watch in watches:
            for tp in self._partitions(watch.topic, watch.partition_key):
                models[tp] = watch.models
        unread = [tp for tp in models if tp not in self._positions]
        self._positions.update(self._run(ends(self._consumer, unread)))
        try:
            with closing(pulled(self._runner, self._coming(list(models)))) as batches:
                for tp, messages in batches:
                    if tp is None:
                        yield None
                    else:
                        yield from self._items(messages, models[tp])
        except (KafkaError, BrokerUnavailableError, OSError, TimeoutError) as error:
            raise self._silent(error) from error

    def write(self, event: Event, event_id: str, source: str) -> Place:
        """Write one event by an idempotent producer of its own."""
        try:
            return self._runner.run(heeded(self._write(event, event_id, source)))
        except (KafkaError, BrokerUnavailableError, OSError, TimeoutError) as error:
            raise JobsLogError(
                Fault.NOT_WRITTEN,
                f"the broker {self._bootstrap} did not acknowledge {event.TYPE}: {_words(error)}",
                "it may be in the log all the same: run the command again, it counts once",
            ) from error

    def say_unreadable(self) -> None:
        """Tell on standard error which records were passed over, as the services do."""
        if self._unreadable:
            say(
                f"note: {len(self._unreadable)} records are no events and were passed over; "
                f"first {self._unreadable[0]}"
            )

    def _partitions(self, topic: str, partition_key: str | None) -> list[TopicPartition]:
        name = load_topics()[topic].full_name
        count = self._counts[name]
        chosen = range(count) if partition_key is None else [partition_of(partition_key, count)]
        return [TopicPartition(name, partition) for partition in chosen]

    def _items(self, messages: Iterable[Any], models: Collection[type[Event]]) -> Iterator[Item]:
        for message in messages:
            try:
                item = item_of(message, self._names[message.topic], models)
            except UnreadableError as error:
                self._unreadable.append(str(error))
                continue
            if item is not None:
                yield item

    def _batches(self, tp: TopicPartition, begin: int, end: int) -> Iterator[tuple[list[Any], int]]:
        batches = partition_batches(self._consumer, tp, begin, end, BATCH_RECORDS)
        try:
            with closing(pulled(self._runner, batches)) as found:
                yield from found
        except (KafkaError, BrokerUnavailableError, OSError) as error:
            raise self._silent(error) from error

    async def _borders(
        self, tps: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        return await self._consumer.beginning_offsets(tps), await ends(self._consumer, tps)

    async def _coming(
        self, tps: Sequence[TopicPartition]
    ) -> AsyncGenerator[tuple[TopicPartition | None, list[Any]], None]:
        """Yield messages by partition; no partition: nothing came for a moment."""
        consumer = self._consumer
        consumer.assign(tps)
        for tp in tps:
            consumer.seek(tp, self._positions[tp])
        clock = asyncio.get_running_loop().time
        heard_s = clock()
        while True:
            batches = await consumer.getmany(timeout_ms=FOLLOW_POLL_MS)
            for tp in sorted(batches):
                self._positions[tp] = batches[tp][-1].offset + 1
                heard_s = clock()
                yield tp, batches[tp]
            if not batches:
                if clock() - heard_s > self._probe_after_s:
                    # A consumer whose broker is gone says nothing, for ever.
                    await asyncio.wait_for(ends(consumer, tps), ANSWER_S)
                    heard_s = clock()
                yield None, []

    async def _write(self, event: Event, event_id: str, source: str) -> Place:
        (tp,) = self._partitions(event.TOPIC, event.partition_key())
        headers = event_headers(event_id, source.encode(), event.TYPE)
        row = (event.record_key().encode(), event.payload(), headers)
        async with opened(make_producer(self._bootstrap)) as producer:
            (future,) = await send_rows(producer, {(tp.topic, tp.partition): [row]})
            told = await asyncio.wait_for(future, WRITE_TIMEOUT_S)
        self._positions[tp] = told.offset + 1
        return Place(event.TOPIC, tp.partition, told.offset)

    def _run(self, waiting: Any) -> Any:
        try:
            return self._runner.run(heeded(waiting))
        except (KafkaError, BrokerUnavailableError, OSError) as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> JobsLogError:
        return _no_answer(self._bootstrap, error)


@contextmanager
def open_log(
    bootstrap: str, topics: Sequence[str], *, probe_after_s: float = PROBE_AFTER_S
) -> Iterator[KafkaLog]:
    """Open the log of a broker. Runs an event loop: call it from a thread that has none.

    Parameters
    ----------
    bootstrap
        Address of the broker, host:port.
    topics
        Short names of the topics that are used.
    probe_after_s
        After so long without a record a follower asks whether the broker is still there.

    Raises
    ------
    JobsLogError
        The broker does not answer, or has not all of the topics.
    """
    with asyncio.Runner() as runner:
        opening = partition_consumer(bootstrap)
        try:
            consumer = runner.run(opening.__aenter__())
        except (KafkaError, BrokerUnavailableError, OSError) as error:
            raise _no_answer(bootstrap, error) from error
        except ValueError as error:
            raise JobsLogError(
                Fault.BAD_ADDRESS,
                f"{bootstrap!r} is no address of a broker: {error}",
                "give host:port",
            ) from error
        try:
            counts = runner.run(_counts(bootstrap, topics))
            log = KafkaLog(bootstrap, runner, consumer, counts, probe_after_s)
            yield log
            log.say_unreadable()
        finally:
            runner.run(opening.__aexit__(None, None, None))


async def _counts(bootstrap: str, topics: Sequence[str]) -> dict[str, int]:
    registry = load_topics()
    names = [registry[topic].full_name for topic in topics]
    try:
        counts = await partition_counts(bootstrap, names)
    except (KafkaError, BrokerUnavailableError, OSError) as error:
        raise _no_answer(bootstrap, error) from error
    missing = [name for name in names if name not in counts]
    if missing:
        raise JobsLogError(
            Fault.TOPIC_MISSING,
            f"the broker {bootstrap} has no topic {', '.join(missing)}",
            "`walras topics create` makes what is missing",
        )
    return counts


def _no_answer(bootstrap: str, error: Exception) -> JobsLogError:
    return JobsLogError(
        Fault.BROKER_UNAVAILABLE,
        f"the broker {bootstrap} does not answer: {_words(error)}",
        "start it, or name another one with --bootstrap",
    )


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
