"""Which replica of a single leader should work.

The replicas join a consumer group on the one partition of ``claims``; who gets it starts to work.
Group membership decides who tries, never who may write: that is the transactional id's business.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor


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
    bootstrap: str, topic: str, service: str, *, session_ms: int
) -> AsyncIterator[asyncio.Event]:
    """Stand for leadership of ``service``; the event is set once this replica should work.

    ``topic`` is the full name of the topic with one partition on which the group is formed.
    """
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=f"walras.{service}.election",
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=max(100, session_ms // 6),
        rebalance_timeout_ms=session_ms,
        # Sticky: a replica that joins must not take the lead from one that works.
        partition_assignment_strategy=(StickyPartitionAssignor,),
        enable_auto_commit=False,
        auto_offset_reset="latest",
    )
    listener = _Assigned()
    consumer.subscribe([topic], listener=listener)
    await consumer.start()
    if consumer.assignment():
        listener.event.set()
    try:
        yield listener.event
    finally:
        await consumer.stop()
