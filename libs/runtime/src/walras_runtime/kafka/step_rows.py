"""The rows of one step's transaction: outputs, state changes, position, barrier."""

from collections.abc import Mapping, Sequence

from walras_contracts.topics import Topic
from walras_runtime.kafka.producing import Row
from walras_runtime.kafka.wire import Headers, barrier_headers, barrier_value, event_headers
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
    source = f"walras/{name}".encode()
    for index, output in enumerate(outputs):
        topic = topics[output.topic]
        target = spec.target(output, topic, partition)
        headers = event_headers(f"{name}/{barrier.number}/{index}", source, output.type)
        rows.setdefault((topic.full_name, target), []).append(
            (output.key.encode(), output.payload, headers)
        )
    changelog = rows.setdefault((topics[spec.state_topic].full_name, partition), [])
    changelog.extend((change.key.encode(), change.value, []) for change in state)
    changelog.append((POSITION_KEY.encode(), position.payload(), []))
    headers = barrier_headers(epoch, previous_commit_ms, traceparent)
    for name_of_topic in spec.outputs:
        topic = topics[name_of_topic]
        if topic.barriers == "producer":
            mark = barrier_row(barrier, topic, headers)
            for target in (partition,) if spec.spread else range(topic.partitions):
                rows.setdefault((topic.full_name, target), []).append(mark)
    return rows
