"""Restoring a stage from its own output (step protocol §5).

The stage's own state topic gives its state and position; table inputs are folded again from their
beginnings up to that position. The group's committed offsets must agree with the position; if they
do not, the position wins and an alarm counter moves.
"""

from collections.abc import Mapping

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from walras_contracts.topics import Topic

from walras_runtime.clock import wall_ms
from walras_runtime.decoding import decode
from walras_runtime.errors import OffsetGapError
from walras_runtime.kafka.log_reading import ends, plain_consumer, read_until
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.position import Position
from walras_runtime.records import POSITION_KEY
from walras_runtime.stage import Stage, StageSpec


async def restore(
    spec: StageSpec,
    partition: int,
    stage: Stage,
    *,
    topics: Mapping[str, Topic],
    partitions: Mapping[str, tuple[int, ...]],
    bootstrap: str,
) -> Position:
    """Fill an empty stage from the log; return the position to go on from.

    Raises
    ------
    OffsetGapError
        Records between the position and now may be gone: by retention, or by compaction because
        the position is older than the compaction lag.
    """
    position, state = await _own_state(spec, partition, topics, bootstrap)
    names = {topics[source.topic].full_name: source for source in spec.inputs}
    start = {
        TopicPartition(name, p): position.offsets.get((source.topic, p), 0)
        for name, source in names.items()
        for p in partitions[source.topic]
    }
    tables = {tp: offset for tp, offset in start.items() if names[tp.topic].table}
    async with plain_consumer(bootstrap) as consumer:
        beginnings = await consumer.beginning_offsets(list(start))
        gaps = [
            f"{tp.topic}/{tp.partition}: {offset}..{beginnings[tp] - 1}"
            for tp, offset in start.items()
            if beginnings[tp] > offset and not (names[tp.topic].table and offset == 0)
        ]
        if gaps:
            raise OffsetGapError(f"never read and gone from the log: {', '.join(gaps)}")
        begin = {tp: beginnings[tp] for tp in tables}
        async for tp, messages in read_until(consumer, begin, tables):
            source = names[tp.topic]
            for message in messages:
                item = parse_message(message, source.topic)
                if isinstance(item, BarrierMark):
                    continue
                record, _ = decode(spec.service, source, item)
                if record is not None:
                    stage.fold(record)
    for key, value in state.items():
        stage.load(key, value)
    return position


async def _own_state(
    spec: StageSpec, partition: int, topics: Mapping[str, Topic], bootstrap: str
) -> tuple[Position, dict[str, bytes]]:
    topic = topics[spec.state_topic]
    tp = TopicPartition(topic.full_name, partition)
    state: dict[str, bytes] = {}
    position = Position.start()
    async with plain_consumer(bootstrap) as consumer:
        begin = await consumer.beginning_offsets([tp])
        written_ms = wall_ms()
        async for _, messages in read_until(consumer, begin, await ends(consumer, [tp])):
            for message in messages:
                key = message.key.decode()
                if key == POSITION_KEY:
                    position = Position.parse(message.value)
                    written_ms = message.timestamp
                elif message.value is None:
                    state.pop(key, None)
                else:
                    # Latest last, so that the order of loading is that of the last changes.
                    state.pop(key, None)
                    state[key] = message.value
    if wall_ms() - written_ms > topic.min_compaction_lag_ms:
        raise OffsetGapError(
            f"{spec.service}/{partition}: the position is older than the compaction lag of "
            f"{topic.min_compaction_lag_ms} ms; its inputs may have been compacted past it"
        )
    return position, state


async def group_agrees(
    bootstrap: str, group: str, topics: Mapping[str, Topic], position: Position
) -> bool:
    """Whether the group's committed offsets are those of the position."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        committed = await admin.list_consumer_group_offsets(group)
    finally:
        await admin.close()
    known = {tp: meta.offset for tp, meta in committed.items() if meta.offset >= 0}
    wanted = {
        TopicPartition(topics[topic].full_name, p): offset
        for (topic, p), offset in position.offsets.items()
    }
    return known == wanted
