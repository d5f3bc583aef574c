"""The replay driver: the outside of the market, in market time.

It takes the ticker's place: accounts and inventory before barrier 0, then the demand of each
interval and its barrier, and the next one only after the simulated fleet reported the last.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition

from walras.trace import Replay
from walras_contracts.topics import Topic
from walras_runtime.kafka.barriers import BarrierWriter
from walras_runtime.kafka.log_reading import plain_consumer
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Barrier, Output, emit

STALL_S = 180.0
"""No step for so long means that something is broken, not slow."""


class ReplayStalledError(RuntimeError):
    """The market does not move any more."""

    code = "replay_stalled"
    retriable = False


class BarrierWatch:
    """Waits until a barrier shows in all partitions of a topic, read_committed."""

    def __init__(self, consumer: AIOKafkaConsumer, topic: Topic) -> None:
        self._consumer = consumer
        self._topic = topic
        self._seen = dict.fromkeys(range(topic.partitions), -1)
        partitions = [TopicPartition(topic.full_name, p) for p in self._seen]
        consumer.assign(partitions)
        for tp in partitions:
            consumer.seek(tp, 0)

    def reached(self) -> int:
        """Return the last barrier that all partitions show; -1 before the first."""
        return min(self._seen.values())

    async def wait(self, number: int, look: Callable[[], None]) -> None:
        """Wait for barrier ``number``, calling ``look`` now and then.

        Raises
        ------
        ReplayStalledError
            Nothing moved for a long time.
        """
        moved = time.monotonic()
        while self.reached() < number:
            batches = await self._consumer.getmany(timeout_ms=200)
            for messages in batches.values():
                for message in messages:
                    item = parse_message(message, self._topic.name)
                    if isinstance(item, BarrierMark):
                        self._seen[message.partition] = item.barrier.number
                        moved = time.monotonic()
            look()
            if time.monotonic() - moved > STALL_S:
                raise ReplayStalledError(
                    f"{self._topic.name} shows barrier {self.reached()}, not {number}, and nothing "
                    f"moved for {STALL_S:.0f} s"
                )


class ReplayDriver:
    """Writes a replay into the log, step by step.

    Parameters
    ----------
    bootstrap
        Address of the broker.
    topics
        The registry.
    replay
        What to write.
    copies
        How often each outside event is told, under the same id.
    """

    def __init__(
        self, bootstrap: str, topics: Mapping[str, Topic], replay: Replay, copies: int = 1
    ) -> None:
        self._bootstrap = bootstrap
        self._copies = copies
        self._topics = topics
        self._replay = replay

    async def run(
        self,
        on_step: Callable[[int, int], None],
        look: Callable[[], None],
        settled: Sequence[str] = ("balances", "invoices"),
    ) -> None:
        """Replay all intervals.

        Parameters
        ----------
        on_step
            Called with barrier number and market time when the fleet has done a step.
        look
            Called several times a second while waiting.
        settled
            Topics that must show the last barrier before the replay counts as complete.
        """
        replay = self._replay
        async with (
            BarrierWriter(self._bootstrap, self._topics, source="walras/replay") as writer,
            plain_consumer(self._bootstrap) as consumer,
        ):
            done = BarrierWatch(consumer, self._topics["fleet.done"])
            setup = [emit(event) for event in (*replay.accounts, *replay.inventory)]
            await self._write(writer, Barrier(0, replay.start_ms), setup)
            await done.wait(0, look)
            on_step(0, replay.start_ms)
            for interval in replay.intervals():
                outputs = [emit(job) for job in interval.jobs]
                await self._write(writer, Barrier(interval.number, interval.end_ms), outputs)
                await done.wait(interval.number, look)
                on_step(interval.number, interval.end_ms)
        for name in settled:
            async with plain_consumer(self._bootstrap) as consumer:
                await BarrierWatch(consumer, self._topics[name]).wait(replay.cycles, look)

    async def _write(
        self, writer: BarrierWriter, barrier: Barrier, outputs: Sequence[Output]
    ) -> None:
        ids = [f"walras/replay/{barrier.number}/{index}" for index in range(len(outputs))]
        await writer.write(barrier, [*outputs] * self._copies, ids * self._copies)
