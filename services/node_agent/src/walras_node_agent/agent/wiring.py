"""How the agent of one node is wired to the log.

It reads the leases and drain commands of its node, and what it told of leases itself, in the
partitions of the node. What it tells goes out in transactions of the node's own transactional id:
what an earlier process of the agent had on its way when it ended cannot arrive behind its
successor's. A claim says whose the id is.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final, Protocol

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from walras_contracts.drains import DrainCommanded
from walras_contracts.identifiers import partition_of
from walras_contracts.topics import Topic, load_topics
from walras_contracts.work import LeaseGranted, LeaseStatusChanged
from walras_node_agent.agent.log_records import Change, Reached, table_of
from walras_node_agent.agent.outgoing import Outgoing, of_output
from walras_node_agent.agent.settings import AgentSettings
from walras_node_agent.host.machine import seconds
from walras_node_agent.host.opening import opened
from walras_node_agent.host.working import Agent
from walras_runtime.clock import incarnation
from walras_runtime.errors import (
    BrokerUnavailableError,
    FencedError,
    PartitionStoppedError,
    ProducerFailedError,
    TopicMismatchError,
)
from walras_runtime.health import Health
from walras_runtime.kafka.claims import claim_key, claim_value, read_settled_claim
from walras_runtime.kafka.following import Latest, Source, follow
from walras_runtime.kafka.log_reading import plain_consumer
from walras_runtime.kafka.producing import (
    Row,
    answered,
    make_producer,
    pack_rows,
    send_batches,
)
from walras_runtime.kafka.topics_admin import check_topics
from walras_runtime.kafka.wire import event_headers
from walras_runtime.records import Output, Record
from walras_runtime.telemetry import Telemetry

READ: Final = (LeaseGranted.TOPIC, DrainCommanded.TOPIC, LeaseStatusChanged.TOPIC)
WRITTEN: Final = ("usage", "lease.status", "drain.status", "node.health")
CLAIMS: Final = "claims"
BATCH: Final = 500
"""So many events go out in one transaction at the most."""
ANSWER_MS: Final = 30_000
"""A broker that takes longer for a transaction is taken for gone."""
STOP_MS: Final = 5_000
RETRY_MS: Final = 1_000
BROKER_ERRORS: Final = (
    *(KafkaError, ProducerFailedError, BrokerUnavailableError),
    *(TimeoutError, OSError),
)
logger = structlog.get_logger("walras")


class LogPort(Protocol):
    """Where the agent's events go."""

    async def send(self, events: Sequence[Outgoing]) -> None:
        """Write events, in order; return when the log has them.

        Raises
        ------
        BrokerUnavailableError
            It does not take them now; they may have been written all the same.
        """


class KafkaLog:
    """The log on a broker, by one transactional producer at a time."""

    def __init__(self, settings: AgentSettings, topics: Mapping[str, Topic], mine: str) -> None:
        self._settings = settings
        self._topics = topics
        self._mine = mine
        self._owner = f"{AgentSettings.SERVICE}/{settings.node}"
        self._source = f"walras/{self._owner}".encode()
        self._producer: AIOKafkaProducer | None = None
        self._claimed = False

    async def send(self, events: Sequence[Outgoing]) -> None:
        """Write events in one transaction.

        Raises
        ------
        BrokerUnavailableError
            The broker does not take them now.
        FencedError
            Another agent works for this node.
        """
        rows = self._rows(events)
        try:
            async with asyncio.timeout(seconds(ANSWER_MS)):
                producer = self._producer or await self._opened()
                await _write(producer, rows)
        except BROKER_ERRORS as error:
            await self.close()
            raise BrokerUnavailableError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Stop the producer, if there is one."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(*BROKER_ERRORS):
                async with asyncio.timeout(seconds(STOP_MS)):
                    await answered(producer.stop())

    async def _opened(self) -> AIOKafkaProducer:
        """Start a producer, which fences any older one, and claim the node."""
        claims = self._topics[CLAIMS].full_name
        async with plain_consumer(self._settings.kafka_bootstrap) as consumer:
            last = await read_settled_claim(
                self._settings.kafka_bootstrap,
                consumer,
                claims,
                self._owner,
                0,
                within_s=seconds(ANSWER_MS),
            )
        if self._claimed and last.incarnation != self._mine:
            raise FencedError(
                f"node {self._settings.node} is claimed by the agent {last.incarnation}"
            )
        self._producer = producer = make_producer(
            self._settings.kafka_bootstrap,
            transactional_id=f"walras.{self._owner.replace('/', '.')}",
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
        )
        await producer.start()
        value = claim_value(self._mine, last.epoch + 1)
        await _write(producer, {(claims, 0): [(claim_key(self._owner, 0), value, [])]})
        self._claimed = True
        return producer

    def _rows(self, events: Sequence[Outgoing]) -> dict[tuple[str, int], list[Row]]:
        rows: dict[tuple[str, int], list[Row]] = {}
        for event in events:
            topic = self._topics[event.topic]
            partition = partition_of(event.partition_key, topic.partitions)
            value = None if event.payload is None else event.payload.encode()
            headers = event_headers(event.event_id, self._source, event.type)
            place = (topic.full_name, partition)
            rows.setdefault(place, []).append((event.key.encode(), value, headers))
        return rows


async def _write(producer: AIOKafkaProducer, rows: Mapping[tuple[str, int], Sequence[Row]]) -> None:
    batches = pack_rows(producer, rows)
    await answered(producer.begin_transaction())
    futures = await answered(send_batches(producer, batches))
    await answered(producer.commit_transaction())
    await asyncio.gather(*futures)


async def publish(agent: Agent, log: LogPort, stop: asyncio.Event, health: Health) -> None:
    """Bring what the agent tells to the log, in order, until stopped."""
    keeping = agent.keeping
    while not stop.is_set():
        events = keeping.spool.oldest(BATCH)
        heartbeat = agent.pulse.take()
        if not events and heartbeat is None:
            keeping.fresh.clear()
            await _either(keeping.fresh, stop)
            continue
        try:
            beats = [] if heartbeat is None else [heartbeat]
            await log.send([*(event for _, event in events), *beats])
        except BrokerUnavailableError as error:
            health.fail("kafka", str(error))
            logger.warning("log_not_writable", why=str(error), waiting=len(keeping.spool))
            await _either(stop, within_ms=RETRY_MS)
            continue
        health.clear("kafka")
        if heartbeat is not None:
            agent.heard()
        if events:
            keeping.acknowledged(events[-1][0] + 1)


async def read(
    agent: Agent,
    settings: AgentSettings,
    topics: Mapping[str, Topic],
    stop: asyncio.Event,
    health: Health,
) -> None:
    """Hand what the log says of this node to the agent, until stopped.

    Behind a silence of the agent it is read again from the beginning (:class:`NodeStanding`).
    """
    name = settings.node
    sources = [Source(topics[n], partition_of(name, topics[n].partitions)) for n in READ]
    while not stop.is_set():
        try:
            following = follow(
                settings.kafka_bootstrap,
                AgentSettings.SERVICE,
                sources,
                lambda key: key.partition("/")[2] == name,
            )
            began = agent.standing.began_to_read()
            async with aclosing(following) as items:  # type: ignore[type-var] # a generator
                async for item in items:
                    hand_over(agent, item, began)
                    health.clear("reading")
                    if agent.standing.wants_table:
                        break
        except (BrokerUnavailableError, OSError) as error:
            health.fail("reading", str(error))
            logger.warning("log_not_readable", why=str(error))
            await _either(stop, within_ms=RETRY_MS)
        except PartitionStoppedError as error:
            # What runs is kept, and metered; nothing new is heard of before another build runs.
            health.fail("reading", str(error))
            logger.error("log_not_understood", why=str(error))
            await stop.wait()


def hand_over(agent: Agent, item: Latest | Record | Output | Mapping[str, int], began: int) -> None:
    """Leave for the agent what was read in the reading that began as ``began`` says."""
    if isinstance(item, Latest):
        changes = [_change(record) for record in item.records.values()]
        agent.inbox.put(table_of(changes, item.barriers))
        agent.standing.read_table(began, item.barriers[LeaseStatusChanged.TOPIC])
        agent.standing.read_leases(item.barriers[LeaseGranted.TOPIC])
        for letter in item.letters:
            _dead_letter(agent, letter)
    elif isinstance(item, Record):
        if item.topic != LeaseStatusChanged.TOPIC:
            agent.inbox.put(_change(item))
    elif isinstance(item, Output):
        _dead_letter(agent, item)
    else:
        # Behind the table in the inbox: the agent must not know more of a log than it has read.
        agent.inbox.put(Reached(item))
        agent.standing.read_leases(item[LeaseGranted.TOPIC])


def _dead_letter(agent: Agent, letter: Output) -> None:
    agent.tell(of_output(letter, f"dead/{letter.key}"))


def _change(record: Record) -> Change:
    return Change(record.topic, record.key.partition("/")[0], record.event)


async def _either(*events: asyncio.Event, within_ms: int | None = None) -> None:
    """Wait until one of the events is set, or the time has passed."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    timeout: Any = None if within_ms is None else seconds(within_ms)
    await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


async def _until(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Work until stopped: a broker that does not answer must not hold the end up."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def serve(
    settings: AgentSettings, stop: asyncio.Event, telemetry: Telemetry, health: Health
) -> None:
    """Run the agent until stopped; what it started runs on, for a while.

    Raises
    ------
    SettingsError
        Its directory or its devices cannot be used, or another agent works there.
    FencedError
        Another agent works for the node.
    """
    del telemetry
    topics = load_topics(settings.partitions)
    mine = incarnation()
    with opened(settings, mine, health) as agent:
        log = KafkaLog(settings, topics, mine)
        health.ready = True
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(agent.run(stop))
                reading = _check_and_read(agent, settings, topics, stop, health)
                group.create_task(_until(stop, publish(agent, log, stop, health)))
                group.create_task(_until(stop, reading))
        except ExceptionGroup as failed:
            first = failed.exceptions[0]
            raise first from failed
        finally:
            await log.close()


async def _check_and_read(
    agent: Agent,
    settings: AgentSettings,
    topics: Mapping[str, Topic],
    stop: asyncio.Event,
    health: Health,
) -> None:
    """Check the broker's topics once it answers, then read; a wrong log is not read."""
    needed = {name: topics[name] for name in (*READ, *WRITTEN, CLAIMS, "dead_letter")}
    while not stop.is_set():
        try:
            await check_topics(settings.kafka_bootstrap, needed)
        except TopicMismatchError as error:
            health.fail("topics", str(error))
            logger.error("topics_differ", why=str(error))
        except (KafkaError, OSError) as error:
            health.fail("kafka", f"{type(error).__name__}: {error}")
        else:
            health.clear("topics")
            await read(agent, settings, topics, stop, health)
            return
        await _either(stop, within_ms=RETRY_MS)
