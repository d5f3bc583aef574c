"""Quotas straight from the market's log."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from walras_client.ladder import Sighting, Source
from walras_client.sheets import Place, Quota, QuotaSheet
from walras_contracts.capacity import SupplyPublished
from walras_contracts.market import QuotaGranted
from walras_contracts.registry import (
    UndecodableError,
    UnknownVersionError,
    decode_inner,
    model_of,
    types_on,
)
from walras_contracts.topics import load_topics
from walras_runtime.errors import BrokerUnavailableError, TopicMismatchError
from walras_runtime.kafka.log_reading import ends, plain_consumer, read_until
from walras_runtime.kafka.topics_admin import partition_counts
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.redis.log_id import read_log_id

LOG_TOPIC = "cycles"
NEWEST_TOPIC = "ticks"
"""A single partition that holds barriers only, written from outside of all services."""
TAIL = 20
"""Offsets to look back for the newest barrier; transaction markers take some of them."""


@dataclass(slots=True)
class _Read:
    quotas: dict[str, QuotaGranted] = field(default_factory=dict)
    supplies: dict[str, SupplyPublished] = field(default_factory=dict)
    marks: dict[int, dict[int, BarrierMark]] = field(default_factory=dict)
    """By partition of ``quotas`` and number."""

    def take(self, topic: str, partition: int, message: Any) -> None:
        item = parse_message(message, topic)
        if isinstance(item, BarrierMark):
            if topic == "quotas":
                self._mark(self.marks.setdefault(partition, {}), item)
            return
        accepted = types_on(topic)
        try:
            model_of(item.type, accepted)
            event = None if item.value is None else decode_inner(item.type, item.value, accepted)
        except UndecodableError:
            return  # nobody folds it: the deciding readers send the dead letter
        if isinstance(event, QuotaGranted):
            self.quotas[event.team] = event
        elif isinstance(event, SupplyPublished):
            self.supplies[event.market] = event
        elif topic == "quotas":
            self.quotas.pop(item.key, None)
        else:
            self.supplies.pop(item.key, None)

    @staticmethod
    def _mark(marks: dict[int, BarrierMark], mark: BarrierMark) -> None:
        """Keep the first record of a barrier, with the highest epoch that wrote it."""
        first = marks.setdefault(mark.barrier.number, mark)
        marks[mark.barrier.number] = replace(first, epoch=max(first.epoch, mark.epoch))

    def sheet(self, log_id: str, partitions: int) -> QuotaSheet | None:
        """Return the sheet at the last barrier that all partitions show, None before the first.

        What a partition shows beyond that barrier is taken too: a compacted log may not hold what
        it replaced. The age is told by the barrier, so it is never understated.
        """
        if len(self.marks) < partitions:
            return None
        number = min(max(marks) for marks in self.marks.values())
        if number not in self.marks[0]:
            # Compaction left the tail of another stretch there: none of it is the same moment.
            return None
        shown = [marks[number] for marks in self.marks.values() if number in marks]
        cycle = max((quota.cycle for quota in self.quotas.values()), default=0)
        return QuotaSheet(
            Place(
                log_id,
                max(mark.epoch for mark in shown),
                cycle,
                number,
                self.marks[0][number].timestamp_ms,
            ),
            {
                team: {
                    part.market: Quota(part.allocated_macc, part.opportunistic_macc)
                    for part in quota.markets
                }
                for team, quota in self.quotas.items()
            },
            {
                market: supply.shared_macc + sum(own.macc for own in supply.own)
                for market, supply in self.supplies.items()
            },
            {team: quota.cycle for team, quota in self.quotas.items()},
        )


async def read_market(bootstrap: str, *, timeout_ms: int) -> tuple[Sighting, str | None]:
    """Read the latest quotas and supplies from the log.

    Returns
    -------
    tuple
        What was seen, and the id of the log; a broker that does not answer in ``timeout_ms``, or
        one without the topics, is a fault in the sighting, not an exception.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            log_id = await read_log_id(bootstrap, load_topics()[LOG_TOPIC].full_name)
            if log_id is None:
                return Sighting(Source.MARKET), None
            return Sighting(Source.MARKET, await _read_sheet(bootstrap, log_id)), log_id
    except (UnknownTopicOrPartitionError, TopicMismatchError):
        return Sighting(Source.MARKET, fault=TopicMismatchError.code), None
    except (TimeoutError, OSError, KafkaError, BrokerUnavailableError):
        return Sighting(Source.MARKET, fault=BrokerUnavailableError.code), None
    except UnknownVersionError as error:
        return Sighting(Source.MARKET, fault=error.code), None


async def _read_sheet(bootstrap: str, log_id: str) -> QuotaSheet | None:
    names = {load_topics()[name].full_name: name for name in ("quotas", "supply")}
    counts = await partition_counts(bootstrap, list(names))
    if missing := names.keys() - counts.keys():
        raise TopicMismatchError(f"{', '.join(sorted(missing))} does not exist")
    tps = [
        TopicPartition(full_name, partition)
        for full_name in names
        for partition in range(counts[full_name])
    ]
    read = _Read()
    async with plain_consumer(bootstrap) as consumer:
        async for tp, messages in _whole(consumer, tps):
            for message in messages:
                read.take(names[tp.topic], tp.partition, message)
    return read.sheet(log_id, counts[load_topics()["quotas"].full_name])


async def _whole(
    consumer: AIOKafkaConsumer, tps: Sequence[TopicPartition]
) -> AsyncIterator[tuple[TopicPartition, list[Any]]]:
    begin = await consumer.beginning_offsets(list(tps))
    async for found in read_until(consumer, begin, await ends(consumer, tps)):
        yield found


async def newest_barrier(bootstrap: str, *, timeout_ms: int) -> int | None:
    """Return the newest barrier written from outside; None where none can be read."""
    tp = TopicPartition(load_topics()[NEWEST_TOPIC].full_name, 0)
    newest: int | None = None
    try:
        async with asyncio.timeout(timeout_ms / 1000), plain_consumer(bootstrap) as consumer:
            begin = (await consumer.beginning_offsets([tp]))[tp]
            until = await ends(consumer, [tp])
            start = {tp: max(begin, until[tp] - TAIL)}
            async for _, messages in read_until(consumer, start, until):
                for message in messages:
                    item = parse_message(message, NEWEST_TOPIC)
                    if isinstance(item, BarrierMark):
                        newest = item.barrier.number
    except (TimeoutError, OSError, KafkaError, BrokerUnavailableError):
        return None
    return newest
