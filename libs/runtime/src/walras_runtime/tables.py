"""Table inputs: folded as they come, and again on a restart.

A table input is folded again from its own topic, up to the stage's position. With a lag on a
compacted topic that would go wrong: the topic already holds records that the stage has not seen,
and compaction may have removed the older ones of the same keys that it has. Such a table is
mirrored into the stage's own state topic, under ``~table/<topic>/<partition>/<key>``.
"""

from collections.abc import Mapping, Sequence

from walras_contracts.topics import Topic
from walras_runtime.decoding import decode
from walras_runtime.records import Record, StateChange
from walras_runtime.stage import Input, Stage, StageSpec

PREFIX = "~table/"
_TYPE = b'{"type":"'
_VALUE = b'","value":'


def is_mirrored(source: Input, topics: Mapping[str, Topic]) -> bool:
    """Whether a table input is restored from the stage's own state topic."""
    return source.table and source.lag > 0 and topics[source.topic].cleanup == "compact"


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


def load_state(spec: StageSpec, stage: Stage, state: Mapping[str, bytes]) -> None:
    """Give a stage its own state back, mirrored tables first."""
    sources = {source.topic: source for source in spec.inputs}
    for key, value in state.items():
        if key.startswith(PREFIX):
            topic, partition, name = key.removeprefix(PREFIX).split("/", 2)
            kind, _, body = value.removeprefix(_TYPE).partition(_VALUE)
            raw = Record(topic, int(partition), -1, name, kind.decode(), body[:-1])
            record, _ = decode(spec.service, sources[topic], raw)
            if record is not None:
                stage.fold(record)
    for key, value in state.items():
        if not key.startswith(PREFIX):
            stage.load(key, value)


def _mirrored(record: Record) -> bytes | None:
    if record.value is None:
        return None
    return _TYPE + record.type.encode() + _VALUE + record.value + b"}"
