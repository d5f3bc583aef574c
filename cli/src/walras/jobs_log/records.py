"""What a message of a topic is to the commands about jobs and nodes."""

from collections.abc import Collection
from typing import Any

from walras.jobs_log.errors import Fault, JobsLogError
from walras.jobs_log.items import Item
from walras_contracts.edge import decode_edge
from walras_contracts.event import Event
from walras_contracts.registry import (
    UndecodableError,
    UnknownVersionError,
    decode_inner,
    types_on,
)
from walras_contracts.rejections import Rejection
from walras_contracts.topics import load_topics
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Record


class UnreadableError(Exception):
    """A record that is no event of its topic; those whom it is for pass it over, too."""

    code = "undecodable"
    retriable = False


def item_of(message: Any, topic: str, models: Collection[type[Event]]) -> Item | None:
    """Return what a message is; None: an event of a type that is not wanted.

    What the outside writes is read as strictly as by the service that judges it: what that refuses
    never counted.

    Parameters
    ----------
    message
        As the client gives it.
    topic
        Short name of its topic.
    models
        Event types that are wanted.

    Raises
    ------
    UnreadableError
        It is no event of the topic, or was refused.
    JobsLogError
        It is an event of a version that this build does not know.
    """
    parsed = parse_message(message, topic)
    if isinstance(parsed, BarrierMark):
        return Item(topic, message.partition, message.offset, "", barrier=parsed.barrier)
    if parsed.value is None:
        return _item(parsed, None)
    if parsed.type in types_on(topic) and all(parsed.type != model.TYPE for model in models):
        return None
    return _item(parsed, _event(parsed))


def _item(record: Record, event: Event | None) -> Item:
    return Item(
        record.topic,
        record.partition,
        record.offset,
        record.key,
        event,
        None,
        record.event_id or "",
        record.source or "",
    )


def _event(record: Record) -> Event:
    accepted = types_on(record.topic)
    value = record.value or b""
    if load_topics()[record.topic].producer == "outside":
        outcome = decode_edge(record.type, record.event_id, record.source, value, accepted)
        if isinstance(outcome, Rejection):
            raise UnreadableError(f"{_where(record)}: {outcome.path}: {outcome.reason}")
        return outcome
    try:
        return decode_inner(record.type, value, accepted)
    except UnknownVersionError as error:
        raise JobsLogError(
            Fault.UNKNOWN_EVENT_VERSION,
            f"{_where(record)}: {error}",
            "use the command of the version that is deployed",
        ) from error
    except UndecodableError as error:
        raise UnreadableError(f"{_where(record)}: {error}") from error


def _where(record: Record) -> str:
    return f"{load_topics()[record.topic].full_name}/{record.partition}@{record.offset}"
