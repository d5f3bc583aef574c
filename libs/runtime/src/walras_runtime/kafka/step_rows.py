"""The rows of one step's transaction: outputs, state changes, position, barrier."""

from collections.abc import Mapping, Sequence

from walras_contracts.topics import Topic
from walras_runtime.kafka.producing import Row
from walras_runtime.kafka.wire import (
    CONTENT_TYPE,
    SPEC_VERSION,
    Headers,
    barrier_headers,
    barrier_value,
)
from walras_runtime.position import Position
from walras_runtime.records import POSITION_KEY, Barrier, Output, StateChange
from walras_runtime.stage import StageSpec


def barrier_row(barrier: Barrier, topic: Topic, headers: Headers) -> Row:
    """Return a barrier as the topic keys it."""
    key = barrier.key(cyclic=topic.cleanup == "compact")
    return (key.encode(), barrier_value(barrier), headers)


def step_rows(
    spec: StageSpec,
    partition: int,
    topics: Mapping[str, Topic],
    barrier: Barrier,
    *,
    outputs: Sequence[Output],
    state: Sequence[StateChange],
    position: Position,
    epoch: int,
    previous_commit_ms: int | None,
    traceparent: str | None,
) -> dict[tuple[str, int], list[Row]]:
    """Return all rows of a step by (full topic name, partition), in writing order.

    Event ids are ``service/partition/step/index``, so that deciding a step again names its
    outputs the same.
    """
    rows: dict[tuple[str, int], list[Row]] = {}
    name = f"{spec.service}/{partition}"
    source = ("ce_source", f"walras/{name}".encode())
    prefix = f"{name}/{barrier.number}/"
    types: dict[str, tuple[str, bytes]] = {}
    # A step may have hundreds of thousands of outputs, most of them for few partitions.
    places: dict[tuple[str, int], list[Row]] = {}
    for index, output in enumerate(outputs):
        given = output.partition
        found = None if given is None else places.get((output.topic, given))
        if found is None:
            topic = topics[output.topic]
            target = spec.target(output, topic, partition)
            found = rows.setdefault((topic.full_name, target), [])
            places[output.topic, target] = found
        kind = types.get(output.type)
        if kind is None:
            kind = types[output.type] = ("ce_type", output.type.encode())
        event_id = ("ce_id", f"{prefix}{index}".encode())
        headers = [event_id, source, SPEC_VERSION, kind, CONTENT_TYPE]
        found.append((output.key.encode(), output.payload, headers))
    changelog = rows.setdefault((topics[spec.state_topic].full_name, partition), [])
    changelog.extend((change.key.encode(), change.value, []) for change in state)
    changelog.append((POSITION_KEY.encode(), position.payload(), []))
    mark_headers = barrier_headers(epoch, previous_commit_ms, traceparent)
    for name_of_topic in spec.outputs:
        topic = topics[name_of_topic]
        if topic.barriers == "producer":
            mark = barrier_row(barrier, topic, mark_headers)
            for target in (partition,) if spec.spread else range(topic.partitions):
                rows.setdefault((topic.full_name, target), []).append(mark)
    return rows
