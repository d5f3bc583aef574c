"""What the tests of effects share: a topic of their own, effects that write down what they get."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from libs.runtime.tests.echo_service import registry
from libs.runtime.tests.kafka_rig import eventually, new_space
from walras_contracts.dead_letters import DeadLettered
from walras_contracts.topics import Topic
from walras_runtime.health import Health
from walras_runtime.kafka.effects import Followed, Progress, follow
from walras_runtime.kafka.opening import opened
from walras_runtime.kafka.producing import make_producer, send_rows
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.kafka.wire import event_headers
from walras_runtime.records import Record

SESSION_MS = 1_000


def letter(text: str) -> bytes:
    """Return the payload of an event that this build decodes."""
    return DeadLettered(
        service="x", topic="t", partition=0, offset=0, code="c", reason=text, value_base64=""
    ).payload()


class Diary:
    """Effects that write down what is told to them; a test says what is done."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, Progress]] = []
        self.resumed: list[int] = []
        self.taken: list[tuple[int, int, str]] = []
        self.read: dict[int, int] = {}
        self.done: dict[int, Progress] = {}
        self.all_done = True
        self.is_full = False
        self.asked_for_room = 0
        self.ended = 0

    def begin(self, partition: int, start: Progress) -> int:
        self.begun.append((partition, start))
        self.read[partition] = start.offset
        self.done[partition] = start
        return start.offset

    def resume(self, partition: int) -> int:
        self.resumed.append(partition)
        return self.read[partition]

    def take(self, record: Record, stamp_ms: int) -> None:
        assert stamp_ms > 0
        assert isinstance(record.event, DeadLettered)
        self.taken.append((record.partition, record.offset, record.event.reason))
        self.read[record.partition] = record.offset + 1

    def passed(self, partition: int, offset: int) -> None:
        self.read[partition] = max(self.read[partition], offset)

    def progress(self, partition: int) -> Progress:
        return Progress(self.read[partition]) if self.all_done else self.done[partition]

    def full(self) -> bool:
        self.asked_for_room += 1
        return self.is_full

    async def end(self) -> None:
        self.ended += 1

    def words(self) -> list[str]:
        return [word for _, _, word in self.taken]


class Bench:
    """A topic and a dead-letter topic of their own, and members that follow the topic."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        topics = registry(new_space())
        self.topic: Topic = topics["in"]
        self.letters: Topic = topics["dead_letter"]
        self.followed = Followed(
            bootstrap, f"diary_{self.topic.name}", self.topic, self.letters, SESSION_MS
        )

    async def create(self) -> None:
        await create_topics(self.bootstrap, {t.name: t for t in (self.topic, self.letters)})

    async def write(
        self,
        values: Sequence[bytes],
        *,
        partition: int = 0,
        event_type: str = DeadLettered.TYPE,
        commit: bool = True,
    ) -> None:
        """Write records in a transaction."""
        headers = event_headers("id", b"test", event_type)
        producer = make_producer(self.bootstrap, transactional_id=f"w-{self.topic.name}")
        async with opened(producer):
            await producer.begin_transaction()
            rows = [(b"k", value, headers) for value in values]
            await send_rows(producer, {(self.topic.full_name, partition): rows})
            if commit:
                await producer.commit_transaction()
            else:
                await producer.flush()
                await producer.abort_transaction()

    async def held(self, partition: int = 0) -> Progress | None:
        """Return what the broker holds as the group's position."""
        tp = TopicPartition(self.topic.full_name, partition)
        async with opened(AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            found = await admin.list_consumer_group_offsets(self.followed.group)
        return Progress(found[tp].offset, found[tp].metadata) if tp in found else None

    async def holds(self, progress: Progress, partition: int = 0) -> None:
        async def there() -> bool:
            return await self.held(partition) == progress

        await eventually(there, f"{progress} as the position of partition {partition}")

    @asynccontextmanager
    async def following(self, diary: Diary, health: Health | None = None) -> AsyncIterator[Health]:
        health = health or Health()
        stop = asyncio.Event()
        task = asyncio.create_task(follow(self.followed, diary, stop, health))
        try:
            yield health
        finally:
            stop.set()
            await task


async def bench_on(broker: Any) -> Bench:
    bench = Bench(broker.bootstrap)
    await bench.create()
    return bench


async def has(diary: Diary, *words: str) -> None:
    async def there() -> bool:
        return diary.words() == list(words)

    await eventually(there, f"{words} taken; {diary.taken}")


ZOMBIE = """
import asyncio, sys
sys.path[:0] = sys.argv[4].split(":")
from libs.runtime.tests.effects_rig import Diary
from walras_contracts.topics import Topic
from walras_runtime.health import Health
from walras_runtime.kafka.effects import Followed, follow

class Loud(Diary):
    def take(self, record, stamp_ms):
        super().take(record, stamp_ms)
        print("took", record.offset, flush=True)

    async def end(self):
        await super().end()
        print("ended", flush=True)

topic, letters = (Topic.model_validate_json(text) for text in sys.argv[2:4])
followed = Followed(sys.argv[1], f"diary_{topic.name}", topic, letters, 1000)
asyncio.run(follow(followed, Loud(), asyncio.Event(), Health()))
"""
