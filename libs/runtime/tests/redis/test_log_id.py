"""The id of a log stays as long as the log does, and no longer."""

import asyncio

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import UnknownTopicOrPartitionError

from libs.runtime.tests.echo_service import registry
from libs.runtime.tests.kafka_rig import new_space
from walras_launcher.running import Broker
from walras_runtime.kafka.producing import make_producer
from walras_runtime.kafka.topics_admin import create_topics
from walras_runtime.redis.log_id import read_log_id

pytestmark = pytest.mark.broker


async def write(bootstrap: str, topic: str) -> int:
    """Write one record; return the offset behind it."""
    producer = make_producer(bootstrap)
    await producer.start()
    sent = await producer.send_and_wait(topic, b"x", partition=0)
    await producer.stop()
    return int(sent.offset) + 1


def test_the_id_outlives_the_records_and_not_the_topic(kafka_broker: Broker) -> None:
    bootstrap = kafka_broker.bootstrap
    topic = registry(new_space())["out"]

    async def run() -> None:
        with pytest.raises(UnknownTopicOrPartitionError):
            await read_log_id(bootstrap, topic.full_name)
        await create_topics(bootstrap, {"out": topic})
        assert await read_log_id(bootstrap, topic.full_name) is None
        end = await write(bootstrap, topic.full_name)
        first = await read_log_id(bootstrap, topic.full_name)
        assert first is not None
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        # What retention does in time.
        await admin.delete_records({TopicPartition(topic.full_name, 0): RecordsToDelete(end)})
        assert await read_log_id(bootstrap, topic.full_name) == first
        await write(bootstrap, topic.full_name)
        assert await read_log_id(bootstrap, topic.full_name) == first
        await admin.delete_topics([topic.full_name])
        while topic.full_name in await admin.list_topics():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
        await admin.close()
        await create_topics(bootstrap, {"out": topic})
        await write(bootstrap, topic.full_name)
        again = await read_log_id(bootstrap, topic.full_name)
        assert again is not None
        assert again != first
        assert again.partition(".")[0] == first.partition(".")[0]

    asyncio.run(asyncio.wait_for(run(), 60))
