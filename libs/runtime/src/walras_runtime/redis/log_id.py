"""The id of a log: tells one broker's log from another's with the same topic names."""

import base64
from io import BytesIO
from typing import Any, ClassVar, Final

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from walras_runtime.errors import BrokerUnavailableError
from walras_runtime.kafka.log_reading import ends, plain_consumer

METADATA: Final = 3
FIRST_WITH_TOPIC_IDS: Final = 10


class _Uuid(AbstractType):  # type: ignore[misc] # untyped base
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


_NAME: Final = CompactString("utf-8")
_NO_TOPIC_ID: Final = bytes(16)


class _Answer(Response):  # type: ignore[misc] # untyped base
    """Metadata as of version 10, the first that names the ids of topics."""

    API_KEY: ClassVar[int] = METADATA
    API_VERSION: ClassVar[int] = FIRST_WITH_TOPIC_IDS
    SCHEMA: ClassVar[Schema] = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", _NAME),
                ("port", Int32),
                ("rack", _NAME),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", _NAME),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", _NAME),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _Question(RequestStruct):  # type: ignore[misc] # untyped base
    FLEXIBLE_VERSION: ClassVar[bool] = True
    API_KEY: ClassVar[int] = METADATA
    API_VERSION: ClassVar[int] = FIRST_WITH_TOPIC_IDS
    RESPONSE_TYPE: ClassVar[type[Response]] = _Answer
    SCHEMA: ClassVar[Schema] = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", _NAME), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _AskForTopic(Request[_Question]):  # type: ignore[misc] # untyped base
    API_KEY: ClassVar[int] = METADATA

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[_Question]) -> _Question:
        return request_struct_class([(_NO_TOPIC_ID, self._topic, {})], False, False, False, {})


async def read_log_id(bootstrap: str, topic: str) -> str | None:
    """Return the id of the broker's log, or None as long as ``topic`` has never been written.

    It is ``<cluster id>.<topic id>``: the broker draws the second when the topic is created, so
    neither retention nor a restart changes it, and a topic that is created anew has another.

    Parameters
    ----------
    bootstrap
        Address of the broker.
    topic
        Full name of a topic that is written from the first step on.

    Raises
    ------
    KafkaError
        What the broker has against the topic: it does not exist, or has no leader yet.
    BrokerUnavailableError
        The broker is too old to know ids of topics.
    """
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    try:
        await client.bootstrap()
        answer: Any = await client.send(client.get_random_node(), _AskForTopic(topic))
    except NotImplementedError as error:
        raise BrokerUnavailableError(f"{bootstrap} does not know ids of topics") from error
    finally:
        await client.close()
    found = answer.to_object()
    code, topic_id = found["topics"][0]["error_code"], found["topics"][0]["topic_id"]
    if code:
        raise for_code(code)(topic)
    async with plain_consumer(bootstrap) as consumer:
        tp = TopicPartition(topic, 0)
        if (await ends(consumer, [tp]))[tp] == 0:
            return None
    return f"{found['cluster_id']}.{base64.urlsafe_b64encode(topic_id).decode().rstrip('=')}"
