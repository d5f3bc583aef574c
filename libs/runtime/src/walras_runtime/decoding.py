"""From a record's bytes to a decoded record; what cannot be read goes to the dead-letter topic."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import replace

from walras_contracts.dead_letters import DeadLettered
from walras_contracts.registry import (
    UndecodableError,
    UnknownVersionError,
    decode_inner,
    model_of,
    types_on,
)
from walras_contracts.topics import Topic
from walras_runtime.align import Aligned
from walras_runtime.errors import PartitionStoppedError
from walras_runtime.records import Output, Record, emit
from walras_runtime.stage import Input, StageSpec

KEPT_BYTES = 65_536


def decode_step(
    spec: StageSpec, aligned: Aligned, topics: Mapping[str, Topic]
) -> tuple[dict[str, list[Record]], list[Output]]:
    """Decode the records of one step; return them, and the dead letters of that step.

    Only here, not when the records are read: so the letters are written in the transaction of the
    step that their records belong to, once, and an unknown version stops at its own step.

    Raises
    ------
    PartitionStoppedError
        As :func:`decode`.
    """
    records: dict[str, list[Record]] = {}
    letters: list[Output] = []
    for source in spec.inputs:
        held = aligned.records[source.topic]
        if source.raw:
            records[source.topic] = held
            continue
        decoded = records[source.topic] = []
        accepted = topics[source.topic].events
        for each in held:
            record, letter = decode(spec.service, source, each, accepted)
            if record is not None:
                decoded.append(record)
            if letter is not None:
                letters.append(letter)
    return records, letters


def decode(
    service: str, source: Input, record: Record, accepted: Iterable[str] | None = None
) -> tuple[Record | None, Output | None]:
    """Decode a record of an input.

    A tombstone is held to the topic's types too: stages tell what ends by its type.

    Parameters
    ----------
    service
        Who reads it; named in the dead letter.
    source
        The input.
    record
        As it was read.
    accepted
        Event types of the topic; None: those that this build registers for the input's topic.

    Returns
    -------
    tuple
        The decoded record and None; or None and the dead letter with the record's coordinates,
        where its bytes or its type are not an event of the topic.

    Raises
    ------
    PartitionStoppedError
        It is an event of the topic in a version that this build does not know: deciding past it
        would be wrong.
    """
    if source.raw:
        return record, None
    types = types_on(source.topic) if accepted is None else accepted
    try:
        if record.value is None:
            model_of(record.type, types)
            return record, None
        return replace(record, event=decode_inner(record.type, record.value, types)), None
    except UnknownVersionError as error:
        raise PartitionStoppedError(
            f"{record.topic}/{record.partition}@{record.offset}: {error}; "
            "deploy a build that knows it, then restart"
        ) from error
    except UndecodableError as error:
        letter = DeadLettered(
            service=service,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            code=error.code,
            reason=str(error)[:500],
            value_base64=base64.b64encode((record.value or b"")[:KEPT_BYTES]).decode(),
        )
        return None, emit(letter)
