"""Three broken builds of billing that a chaos run must catch; made in the worker, by patches."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from tests.chaos.ordered_runner import OrderedRunner
from walras_billing.prices import PriceHistory, Segment
from walras_runtime.align import Aligner
from walras_runtime.kafka import step_runner
from walras_runtime.kafka.opening import opened
from walras_runtime.kafka.producing import Batches, Row, make_producer, send_rows
from walras_runtime.kafka.step_rows import step_rows
from walras_runtime.kafka.step_runner import StepRunner
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.position import Position
from walras_runtime.stage import StageSpec

SELDOM_MS: Final = 10**12
Rows = dict[tuple[str, int], list[Row]]
_outside: dict[int, Rows] = {}
"""By partition what a step writes beside its state."""


class OutsideRunner(OrderedRunner):
    """Publishes first, and notes where it stands in a transaction afterwards."""

    _publisher: AIOKafkaProducer | None = None

    async def _commit(self, batches: Batches, position: Position) -> None:
        if self._publisher is None:
            self._publisher = make_producer(self._settings.kafka_bootstrap)
            await self._publisher.start()
        await asyncio.gather(*await send_rows(self._publisher, _outside.pop(self._partition)))
        await super()._commit(batches, position)


def _rows_of_state(spec: StageSpec, partition: int, topics: Any, *rest: Any, **named: Any) -> Rows:
    rows = step_rows(spec, partition, topics, *rest, **named)
    state = topics[spec.state_topic].full_name
    _outside[partition] = {place: held for place, held in rows.items() if place[0] != state}
    return {place: held for place, held in rows.items() if place[0] == state}


def publishes_outside() -> type[StepRunner]:
    """Return the build that publishes outside the transaction."""
    vars(step_runner)["step_rows"] = _rows_of_state
    return OutsideRunner


class TrustingRunner(OrderedRunner):
    """Goes on from the group's committed offsets, and never asks whose the partition is."""

    async def _still_mine(self, stop: asyncio.Event) -> None:
        del stop
        await asyncio.sleep(step_runner.RETRY_S)

    async def _restore(self, consumer: AIOKafkaConsumer) -> None:
        await super()._restore(consumer)
        async with opened(
            AIOKafkaAdminClient(bootstrap_servers=self._settings.kafka_bootstrap)
        ) as admin:
            committed = await admin.list_consumer_group_offsets(self.group)
        if not committed:
            return
        offsets = {(self._short[tp.topic], tp.partition): at.offset for tp, at in committed.items()}
        usage = TopicPartition(self._topics["usage"].full_name, self._partition)
        consumer.assign([usage])
        consumer.seek(usage, committed[usage].offset - 1)
        mark = parse_message(await consumer.getone(usage), "usage")
        assert isinstance(mark, BarrierMark)
        delivered = dict.fromkeys(offsets, mark.barrier.number)
        number, at_ms = mark.barrier.number, mark.barrier.market_time_ms
        self._position = Position(number, at_ms, offsets, delivered, self._position.epoch)
        self._aligner = Aligner(self._spec.inputs, self.partitions, offsets, delivered)


def trusts_offsets() -> type[StepRunner]:
    """Return the build that resumes from the committed offset without a look at the claim.

    The group's offsets are as old as they may be: they are for lag monitors.
    """
    vars(step_runner)["OFFSETS_EVERY_MS"] = SELDOM_MS
    return TrustingRunner


def joins_newest_price() -> type[StepRunner]:
    """Return the build that takes the newest price instead of the one of the time of use."""
    in_force = PriceHistory.segments

    def newest(
        self: PriceHistory,
        series: str,
        pool: str,
        span: tuple[int, int],
        *rest: Any,
    ) -> list[Segment]:
        until_ms = rest[0].until_ms
        found = in_force(self, series, pool, (until_ms, until_ms + 1), *rest)[-1]
        return [found._replace(start_ms=span[0], end_ms=span[1])]

    PriceHistory.segments = newest  # type: ignore[method-assign, assignment] # that breaks it
    return OrderedRunner


BUILDS: Final[Mapping[str, Callable[[], type[StepRunner]]]] = {
    "publishes_outside": publishes_outside,
    "trusts_offsets": trusts_offsets,
    "joins_newest_price": joins_newest_price,
}
