"""Table inputs: folded as they come, and again on a restart.

A table input is folded again from its own topic, up to the stage's position. With a lag on a
compacted topic that would go wrong: the topic already holds records that the stage has not seen,
and compaction may have removed the older ones of the same keys that it has. Such a table is
mirrored into the stage's own state topic, under ``~table/<topic>/<partition>/<key>``.

Which inputs are mirrored stands in the position record, so that a build that wires them otherwise
notices: what it would have to mirror and does not find is a reason to stop, what it no longer
mirrors is removed with its next step.
"""

from collections.abc import Mapping, Sequence

from walras_contracts.topics import Topic
from walras_runtime.decoding import decode
from walras_runtime.errors import StateUnreadableError
from walras_runtime.position import Position
from walras_runtime.records import Record, StateChange
from walras_runtime.stage import Input, Stage, StageSpec

PREFIX = "~table/"
_TYPE = b'{"type":"'
_VALUE = b'","value":'


def is_mirrored(source: Input, topics: Mapping[str, Topic]) -> bool:
    """Whether a table input is restored from the stage's own state topic."""
    return source.table and source.lag > 0 and topics[source.topic].cleanup == "compact"


def mirrored_inputs(spec: StageSpec, topics: Mapping[str, Topic]) -> tuple[str, ...]:
    """Return the inputs that the stage's own state topic mirrors, in their order."""
    return tuple(source.topic for source in spec.inputs if is_mirrored(source, topics))


def check_mirrored(spec: StageSpec, topics: Mapping[str, Topic], position: Position) -> None:
    """Check that the state topic mirrors what this build needs it to.

    Raises
    ------
    StateUnreadableError
        A table that has been read already was not mirrored by the build that read it: what it held
        then can be read nowhere any more.
    """
    if position.mirrored is None:
        return
    read = {topic for (topic, _), barrier in position.delivered.items() if barrier >= 0}
    missing = [
        name
        for name in mirrored_inputs(spec, topics)
        if name in read and name not in position.mirrored
    ]
    if missing:
        raise StateUnreadableError(
            f"{spec.service}: step {position.step} was decided by a build that did not mirror "
            f"{', '.join(missing)}; it can only be continued by such a build"
        )


def fold_tables(
    spec: StageSpec,
    stage: Stage,
    topics: Mapping[str, Topic],
    records: Mapping[str, Sequence[Record]],
) -> list[StateChange]:
    """Fold a step's records of table inputs; return the changes that mirror them."""
    changes: list[StateChange] = []
    for source in spec.inputs:
        if not source.table:
            continue
        mirrored = is_mirrored(source, topics)
        for record in records[source.topic]:
            stage.fold(record)
            if mirrored:
                key = f"{PREFIX}{record.topic}/{record.partition}/{record.key}"
                changes.append(StateChange(key, _mirrored(record)))
    return changes


def load_state(
    spec: StageSpec, stage: Stage, topics: Mapping[str, Topic], state: Mapping[str, bytes]
) -> list[StateChange]:
    """Give a stage its own state back, mirrored tables first.

    Returns
    -------
    list
        The changes that remove the mirrors of inputs that are mirrored no longer.

    Raises
    ------
    StateUnreadableError
        A mirrored record is damaged.
    PartitionStoppedError
        One is of a version that this build does not know.
    """
    sources = {source.topic: source for source in spec.inputs if is_mirrored(source, topics)}
    left_over: list[StateChange] = []
    for key, value in state.items():
        if not key.startswith(PREFIX):
            continue
        topic, _, rest = key.removeprefix(PREFIX).partition("/")
        if topic not in sources:
            left_over.append(StateChange(key, None))
            continue
        raw = _record(spec, key, value, topic, rest)
        record, _ = decode(spec.service, sources[topic], raw, topics[topic].events)
        if record is None:
            raise StateUnreadableError(f"{spec.state_topic}: the value of {key!r} does not decode")
        stage.fold(record)
    for key, value in state.items():
        if not key.startswith(PREFIX):
            stage.load(key, value)
    return left_over


def _record(spec: StageSpec, key: str, value: bytes, topic: str, rest: str) -> Record:
    partition, _, name = rest.partition("/")
    kind, found, body = value.removeprefix(_TYPE).partition(_VALUE)
    if not (value.startswith(_TYPE) and found and body.endswith(b"}") and partition.isdecimal()):
        raise StateUnreadableError(f"{spec.state_topic}: {key!r} does not hold a table's record")
    # Its offset in the input is not kept; nothing that folds a table looks at it.
    return Record(topic, int(partition), 0, name, kind.decode("utf-8", "replace"), body[:-1])


def _mirrored(record: Record) -> bytes | None:
    if record.value is None:
        return None
    return _TYPE + record.type.encode() + _VALUE + record.value + b"}"
