"""The id of a log: tells one broker's log from another's with the same topic names."""

import asyncio
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from walras_runtime.errors import BrokerUnavailableError
from walras_runtime.kafka.log_reading import plain_consumer

READ_TIMEOUT_S = 30.0


async def read_log_id(bootstrap: str, topic: str) -> str | None:
    """Return the id of the broker's log, or None as long as ``topic`` is empty.

    It is ``<cluster id>.<stamp>``. The stamp is the broker timestamp, in milliseconds, of the
    earliest record kept in partition 0 of ``topic``: the client offers neither a topic's id nor
    its creation time. It holds until retention removes that record; then the id changes once and
    the projection starts afresh under another key, which costs nothing but the old key.

    Parameters
    ----------
    bootstrap
        Address of the broker.
    topic
        Full name of a topic that is written from the first step on.

    Raises
    ------
    BrokerUnavailableError
        The record is there but cannot be read.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await admin.start()
        cluster: dict[str, Any] = await admin.describe_cluster()
    finally:
        await admin.close()
    async with plain_consumer(bootstrap) as consumer:
        tp = TopicPartition(topic, 0)
        begin = (await consumer.beginning_offsets([tp]))[tp]
        end = (await consumer.end_offsets([tp]))[tp]
        if begin >= end:
            return None
        consumer.assign([tp])
        consumer.seek(tp, begin)
        try:
            first = await asyncio.wait_for(consumer.getone(), READ_TIMEOUT_S)
        except TimeoutError as error:
            raise BrokerUnavailableError(f"{topic}/0 has records but none came") from error
    return f"{cluster['cluster_id']}.{first.timestamp}"
