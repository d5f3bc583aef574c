"""Which replica of a single leader should work.

The replicas join a consumer group on the one partition of ``claims``; who gets it starts to work.
Group membership decides who tries, never who may write: that is the transactional id's business.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from walras_runtime.kafka.opening import opened

MAX_POLL_INTERVAL_MS = 300_000
POLL_MS = 1_000
"""How long one look for records may wait; while it waits, the member counts as polling."""

logger = structlog.get_logger("walras")


class _Assigned(ConsumerRebalanceListener):  # type: ignore[misc] # untyped base
    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Nothing to do: a leader works until it is fenced."""

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Note that the partition is ours."""
        if assigned:
            self.event.set()


@asynccontextmanager
async def campaign(
    bootstrap: str,
    topic: str,
    service: str,
    *,
    session_ms: int,
    max_poll_interval_ms: int = MAX_POLL_INTERVAL_MS,
) -> AsyncIterator[asyncio.Event]:
    """Stand for leadership of ``service``; the event is set once this replica should work.

    Parameters
    ----------
    bootstrap
        Address of the broker.
    topic
        Full name of the topic with one partition on which the group is formed.
    service
        Whose leader is wanted.
    session_ms
        After this silence of a member another one is asked to work.
    max_poll_interval_ms
        The client leaves the group when nothing has polled for so long; a member polls all the
        time until this context ends, however long it leads or stands by.
    """
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=f"walras.{service}.election",
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=max(100, session_ms // 6),
        rebalance_timeout_ms=session_ms,
        max_poll_interval_ms=max_poll_interval_ms,
        # Sticky: a replica that joins must not take the lead from one that works.
        partition_assignment_strategy=(StickyPartitionAssignor,),
        enable_auto_commit=False,
        auto_offset_reset="latest",
    )
    listener = _Assigned()
    consumer.subscribe([topic], listener=listener)
    async with opened(consumer):
        if consumer.assignment():
            listener.event.set()
        polling = asyncio.create_task(_poll(consumer))
        try:
            yield listener.event
        finally:
            polling.cancel()
            with suppress(asyncio.CancelledError):
                await polling


async def _poll(consumer: AIOKafkaConsumer) -> None:
    """Keep the membership alive; what the topic says is read elsewhere."""
    while True:
        try:
            await consumer.getmany(timeout_ms=POLL_MS)
        except KafkaError as error:
            logger.warning("election_poll_failed", error=repr(error))
            await asyncio.sleep(POLL_MS / 1000)
