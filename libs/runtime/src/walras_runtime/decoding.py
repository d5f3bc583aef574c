"""From a record's bytes to a decoded record; what cannot be read goes to the dead-letter topic."""

import base64
from collections.abc import Iterable, Mapping

from walras_contracts.dead_letters import DeadLettered
from walras_contracts.event import Event
from walras_contracts.registry import (
    UndecodableError,
    UnknownVersionError,
    decode_inner,
    model_of,
    types_on,
)
from walras_contracts.topics import Topic
from walras_runtime.align import Aligned, Interval
from walras_runtime.errors import PartitionStoppedError
from walras_runtime.records import Output, Record, emit
from walras_runtime.stage import Input, StageSpec

KEPT_BYTES = 65_536


def decode_step(
    spec: StageSpec, aligned: Aligned, topics: Mapping[str, Topic]
) -> tuple[dict[str, list[Record]], list[Output]]:
    """Decode the records of one step; return them, and the dead letters of that step.

    What was decoded ahead (:func:`decode_ahead`) is taken as it is. The rest only here: so the
    letters are written in the transaction of the step that their records belong to, once, and an
    unknown version stops at its own step.

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
            if each.event is not None:
                decoded.append(each)
                continue
            record, letter = decode(spec.service, source, each, accepted)
            if record is not None:
                decoded.append(record)
            if letter is not None:
                letters.append(letter)
    return records, letters


def decode_ahead(interval: Interval, accepted: Iterable[str], most: int) -> int:
    """Decode records before their step, while nothing else is to be done.

    Only what decodes is replaced; what does not is left to its step, which tells why.

    Parameters
    ----------
    interval
        Where they are held.
    accepted
        As in :func:`decode`.
    most
        How many to look at.

    Returns
    -------
    int
        How many were looked at.
    """
    records, start = interval.records, interval.looked_at
    end = min(len(records), start + most)
    for place in range(start, end):
        record = records[place]
        if record.value is None:
            continue
        try:
            event = decode_inner(record.type, record.value, accepted)
        except (UnknownVersionError, UndecodableError):
            continue
        records[place] = _with_event(record, event)
    interval.looked_at = end
    return end - start


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
        return _with_event(record, decode_inner(record.type, record.value, types)), None
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


def _with_event(record: Record, event: Event) -> Record:
    # As `dataclasses.replace`, which takes as long as decoding does.
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.type,
        record.value,
        event,
        record.event_id,
        record.source,
    )
