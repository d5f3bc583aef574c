"""Writing barriers, with what came before them, into every partition the outside writes."""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import structlog
from aiokafka.errors import KafkaError

from walras_contracts.identifiers import partition_of
from walras_contracts.topics import Topic
from walras_runtime.errors import ProducerFailedError
from walras_runtime.kafka.log_reading import read_all
from walras_runtime.kafka.producing import (
    Row,
    answered,
    make_producer,
    pack_rows,
    send_batches,
)
from walras_runtime.kafka.step_rows import barrier_row
from walras_runtime.kafka.wire import BarrierMark, barrier_headers, event_headers, parse_message
from walras_runtime.records import Barrier, Output

WRITE_TIMEOUT_S = 60.0
"""A write that takes longer means a lost broker; the caller decides what then."""
logger = structlog.get_logger("walras")


class BarrierWriter:
    """Writes outside events and barriers.

    With a transactional id all partitions get a barrier or none, and an older writer with the same
    id is fenced (the ticker). Without one the writes are idempotent and in order (the replay
    driver, which owns the whole log of its run).
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Mapping[str, Topic],
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 15_000,
        source: str = "walras/outside",
    ) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._transactional = transactional_id is not None
        self._source = source.encode()
        self._name = source
        self._producer = make_producer(
            bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
        )
        self.epoch = 0

    async def __aenter__(self) -> Self:
        """Start; with a transactional id this fences any older writer."""
        try:
            await self._producer.start()
        except BaseException as error:
            # Nobody will call `__aexit__`.
            await self._stop(error)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the producer."""
        await self._stop(error)

    async def _stop(self, why: BaseException | None) -> None:
        """Stop the producer; where that fails, ``why`` it was to be stopped is what counts."""
        try:
            await answered(self._producer.stop())
        except (KafkaError, ProducerFailedError) as error:
            if why is None:
                raise
            logger.warning("producer_not_stopped", error=repr(error))

    async def last_barrier(self) -> Barrier | None:
        """Return the last barrier written, and take the next epoch after its writer's."""
        last: BarrierMark | None = None
        for message in await read_all(self._bootstrap, self._topics["ticks"].full_name, [0]):
            mark = parse_message(message, "ticks")
            if isinstance(mark, BarrierMark):
                last = mark
        self.epoch = 1 if last is None else last.epoch + 1
        return None if last is None else last.barrier

    async def write(
        self,
        barrier: Barrier,
        outputs: Sequence[Output] = (),
        event_ids: Sequence[str] | None = None,
    ) -> None:
        """Write outputs and then the barrier; returned when the broker has acknowledged all.

        Raises
        ------
        ProducerFailedError
            Another writer with this id has begun.
        """
        batches = pack_rows(self._producer, self._rows(barrier, outputs, event_ids))
        if self._transactional:
            await answered(self._producer.begin_transaction())
        futures = await answered(send_batches(self._producer, batches))
        if self._transactional:
            commit = self._producer.commit_transaction()
            await answered(asyncio.wait_for(commit, WRITE_TIMEOUT_S))
        await asyncio.wait_for(asyncio.gather(*futures), WRITE_TIMEOUT_S)

    def _rows(
        self, barrier: Barrier, outputs: Sequence[Output], event_ids: Sequence[str] | None
    ) -> dict[tuple[str, int], list[Row]]:
        rows: dict[tuple[str, int], list[Row]] = {}
        for index, output in enumerate(outputs):
            topic = self._topics[output.topic]
            partition = output.partition
            if partition is None:
                partition = partition_of(output.partition_key, topic.partitions)
            event_id = event_ids[index] if event_ids else f"{self._name}/{barrier.number}/{index}"
            rows.setdefault((topic.full_name, partition), []).append(
                (
                    output.key.encode(),
                    output.payload,
                    event_headers(event_id, self._source, output.type),
                )
            )
        headers = barrier_headers(self.epoch)
        for topic in self._topics.values():
            if topic.barriers == "outside":
                mark = barrier_row(barrier, topic, headers)
                for partition in range(topic.partitions):
                    rows.setdefault((topic.full_name, partition), []).append(mark)
        return rows
