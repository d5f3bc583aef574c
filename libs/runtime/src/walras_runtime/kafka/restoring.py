"""Restoring a stage from its own output (step protocol §5).

The stage's own state topic gives its state and position, and its lagged tables; the other table
inputs are folded again from their beginnings up to that position. The group's committed offsets
follow the position, at most a second behind; if they are ever ahead, the position wins and an alarm
counter moves.

How far a long restore has come is reported on the way (`walras_runtime.progress`).
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from walras_contracts.topics import Topic
from walras_runtime.decoding import decode
from walras_runtime.errors import OffsetGapError
from walras_runtime.kafka.log_reading import ends, read_until
from walras_runtime.kafka.opening import opened
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.position import Position
from walras_runtime.progress import RestoreProgress
from walras_runtime.records import POSITION_KEY, StateChange
from walras_runtime.stage import Stage, StageSpec
from walras_runtime.tables import check_mirrored, is_mirrored, load_state


async def restore(
    consumer: AIOKafkaConsumer,
    spec: StageSpec,
    partition: int,
    stage: Stage,
    *,
    topics: Mapping[str, Topic],
    partitions: Mapping[str, tuple[int, ...]],
    left_over: list[StateChange] | None = None,
) -> Position:
    """Fill an empty stage from the log; return the position to go on from.

    Parameters
    ----------
    consumer
        An open consumer without assignments that matter.
    spec, partition, stage
        The stage to fill.
    topics
        The registry.
    partitions
        For each input the partitions that the stage reads.
    left_over
        Filled with the changes that remove what this build does not keep any more.

    Raises
    ------
    OffsetGapError
        Records behind the position, never read, are gone from the log.
    StateUnreadableError
        The own state is damaged, or an earlier build kept less than this one needs.
    """
    with RestoreProgress(f"{spec.service}/{partition}") as progress:
        position, state = await _own_state(consumer, spec, partition, topics, progress)
        check_mirrored(spec, topics, position)
        await _fold_tables(
            consumer, spec, stage, position, progress, topics=topics, partitions=partitions
        )
    found = load_state(spec, stage, topics, state)
    if left_over is not None:
        left_over[:] = found
    return position


async def _fold_tables(
    consumer: AIOKafkaConsumer,
    spec: StageSpec,
    stage: Stage,
    position: Position,
    progress: RestoreProgress,
    *,
    topics: Mapping[str, Topic],
    partitions: Mapping[str, tuple[int, ...]],
) -> None:
    """Fold the table inputs of others again, up to the position."""
    names = {topics[source.topic].full_name: source for source in spec.inputs}
    start = {
        TopicPartition(name, p): position.offsets.get((source.topic, p), 0)
        for name, source in names.items()
        for p in partitions[source.topic]
    }
    tables = {
        tp: offset
        for tp, offset in start.items()
        if names[tp.topic].table and not is_mirrored(names[tp.topic], topics)
    }
    beginnings = await consumer.beginning_offsets(list(start))
    check_gaps(
        {tp: at for tp, at in start.items() if at > 0 or not names[tp.topic].table},
        beginnings,
        await ends(consumer, start),
    )
    begin = {tp: beginnings[tp] for tp in tables}
    async for tp, messages in _read(consumer, begin, tables, progress):
        source = names[tp.topic]
        for message in messages:
            item = parse_message(message, source.topic)
            if isinstance(item, BarrierMark):
                continue
            record, _ = decode(spec.service, source, item, topics[source.topic].events)
            if record is not None:
                stage.fold(record)


async def _read(
    consumer: AIOKafkaConsumer,
    start: Mapping[TopicPartition, int],
    until: Mapping[TopicPartition, int],
    progress: RestoreProgress,
) -> AsyncIterator[tuple[TopicPartition, list[Any]]]:
    """Read as `read_until` does, and say how far that has come."""
    for tp, end in until.items():
        progress.expect(tp.topic, tp.partition, start[tp], end)
    async for tp, messages in read_until(consumer, start, until):
        yield tp, messages
        if messages:
            progress.passed(tp.topic, tp.partition, messages[-1].offset + 1)
    # Barriers of aborted transactions, or what compaction removed, may stand at the end.
    for tp, end in until.items():
        progress.passed(tp.topic, tp.partition, end)


def check_gaps(
    wanted: Mapping[TopicPartition, int],
    beginnings: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    """Check that the log still has the records from the wanted offsets on.

    Raises
    ------
    OffsetGapError
        Naming for each partition the offsets that are gone.
    """
    gaps = [
        f"{tp.topic}/{tp.partition}: {offset}..{beginnings[tp] - 1}"
        for tp, offset in sorted(wanted.items())
        if beginnings[tp] > offset
    ]
    if gaps:
        raise OffsetGapError(f"never read and gone from the log: {', '.join(gaps)}")
    beyond = [f"{tp.topic}/{tp.partition}: {at}" for tp, at in wanted.items() if at > ends[tp]]
    if beyond:
        raise OffsetGapError(f"beyond the end of the log: {', '.join(sorted(beyond))}")


async def _own_state(
    consumer: AIOKafkaConsumer,
    spec: StageSpec,
    partition: int,
    topics: Mapping[str, Topic],
    progress: RestoreProgress,
) -> tuple[Position, dict[str, bytes]]:
    tp = TopicPartition(topics[spec.state_topic].full_name, partition)
    state: dict[str, bytes] = {}
    position = Position.start()
    begin = await consumer.beginning_offsets([tp])
    async for _, messages in _read(consumer, begin, await ends(consumer, [tp]), progress):
        for message in messages:
            key = message.key.decode()
            if key == POSITION_KEY:
                position = Position.parse(message.value)
                continue
            # Latest last, so that the order of loading is that of the last changes.
            state.pop(key, None)
            if message.value is not None:
                state[key] = message.value
    return position, state


async def group_agrees(
    bootstrap: str, group: str, topics: Mapping[str, Topic], position: Position
) -> bool:
    """Whether the group's committed offsets are nowhere ahead of the position."""
    async with opened(AIOKafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        committed = await admin.list_consumer_group_offsets(group)
    position_of = {
        TopicPartition(topics[topic].full_name, p): offset
        for (topic, p), offset in position.offsets.items()
    }
    # The group may still know inputs that an earlier build had.
    return all(committed[tp].offset <= at for tp, at in position_of.items() if tp in committed)
