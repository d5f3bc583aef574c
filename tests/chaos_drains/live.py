"""What a read_committed reader sees of the log while a run lasts, to know what to wait for."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.chaos.waiting import FETCH_MS
from walras_contracts.capacity import NodePublished
from walras_contracts.drains import DrainSessionChanged, SessionState
from walras_contracts.registry import decode_inner
from walras_contracts.topics import load_topics
from walras_contracts.work import JobState, JobStatusChanged, LeaseGranted
from walras_runtime.kafka.log_reading import plain_consumer
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Record

FOLLOWED: Final = (
    *("nodes", "leases", "job.status", "drain.sessions", "drain.commands", "lease.status"),
)
ENDED: Final = frozenset({SessionState.FREED, SessionState.FAILED, SessionState.CANCELLED})


class Live:
    """Barriers, sessions, leases and lost nodes so far."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self.following: asyncio.Task[None] | None = None
        self.begun: set[str] = set()
        """Sessions of which agents were told."""
        self.open: set[str] = set()
        """Sessions that have not ended."""
        self.parts: set[str] = set()
        """Parts of leases that have a record."""
        self.running: set[str] = set()
        """Jobs that hold a lease."""
        self.lost: set[str] = set()
        """Nodes."""
        topics = [load_topics()[name] for name in FOLLOWED]
        self._consumer = consumer
        self._names = {topic.full_name: topic.name for topic in topics}
        self._seen = {(t.name, p): -1 for t in topics for p in range(t.partitions)}
        places = [TopicPartition(t.full_name, p) for t in topics for p in range(t.partitions)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)

    def reached(self, names: Iterable[str] = FOLLOWED) -> int:
        """Return the last barrier that all partitions of some topics show; -1: none.

        Raises
        ------
        KafkaError
            The reader broke.
        """
        if self.following is not None and self.following.done():
            self.following.result()
        wanted = frozenset(names)
        return min(seen for (name, _), seen in self._seen.items() if name in wanted)

    def ticked(self) -> int:
        """Return the last barrier that the ticker has written."""
        return max(seen for (name, _), seen in self._seen.items() if name == "lease.status")

    async def follow(self) -> None:
        """Read for ever."""
        while True:
            for place, messages in (await self._consumer.getmany(timeout_ms=FETCH_MS)).items():
                name = self._names[place.topic]
                for message in messages:
                    item = parse_message(message, name)
                    if isinstance(item, BarrierMark):
                        self._seen[name, place.partition] = item.barrier.number
                    else:
                        self._take(item)

    def _take(self, record: Record) -> None:
        if record.topic == LeaseGranted.TOPIC:
            _keep(self.parts, record.key, record.value is not None)
        if record.value is None:
            self.running.discard(record.key)
        if record.value is None or record.topic in {"leases", "drain.commands", "lease.status"}:
            return
        event = decode_inner(record.type, record.value)
        if isinstance(event, NodePublished):
            _keep(self.lost, event.node, event.lost)
        elif isinstance(event, JobStatusChanged):
            holds = event.state in {JobState.RUNNING, JobState.DRAINING}
            _keep(self.running, event.record_key(), holds)
        elif isinstance(event, DrainSessionChanged):
            _keep(self.open, event.session, event.state not in ENDED)
            if event.commanded_ms is not None:
                self.begun.add(event.session)


def _keep(found: set[str], name: str, there: bool) -> None:
    if there:
        found.add(name)
    else:
        found.discard(name)


@asynccontextmanager
async def live(bootstrap: str) -> AsyncIterator[Live]:
    """Follow the log for as long as the context lasts."""
    async with plain_consumer(bootstrap) as consumer:
        seen = Live(consumer)
        seen.following = following = asyncio.create_task(seen.follow())
        try:
            yield seen
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
