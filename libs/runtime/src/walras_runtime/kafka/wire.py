"""Records on the wire: CloudEvents 1.0 in binary mode, barriers, their headers.

Headers of a data record: ``ce_id ce_source ce_specversion ce_type content-type``. Headers of a
barrier add ``walras_epoch`` (who wrote it), ``walras_previous_commit_ms`` (wall time at which the
writer's previous step was committed) and ``traceparent``.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from walras_contracts.quantities import MARKET_TIME_MS_MAX, NUMBER_MAX
from walras_runtime.records import BARRIER_KEY_PREFIX, BARRIER_TYPE, Barrier, Record

Headers = list[tuple[str, bytes]]

CONTENT_TYPE: Final = ("content-type", b"application/json")
SPEC_VERSION: Final = ("ce_specversion", b"1.0")
EPOCH_HEADER: Final = "walras_epoch"
PREVIOUS_COMMIT_HEADER: Final = "walras_previous_commit_ms"
TRACE_HEADER: Final = "traceparent"
EPOCH_DIGITS: Final = len(str(NUMBER_MAX))
_BARRIER_PREFIX: Final = BARRIER_KEY_PREFIX.encode()
_BARRIER_TYPE: Final = BARRIER_TYPE.encode()


@dataclass(frozen=True, slots=True)
class BarrierMark:
    """A barrier as read: with its writer's epoch and the record's stamp."""

    barrier: Barrier
    epoch: int
    timestamp_ms: int
    offset: int
    traceparent: str | None


def event_headers(event_id: str, source: bytes, event_type: str) -> Headers:
    """Return the headers of a data record."""
    return [
        ("ce_id", event_id.encode()),
        ("ce_source", source),
        SPEC_VERSION,
        ("ce_type", event_type.encode()),
        CONTENT_TYPE,
    ]


def barrier_value(barrier: Barrier) -> bytes:
    """Return the payload of a barrier."""
    return b'{"barrier":%d,"market_time_ms":%d}' % (barrier.number, barrier.market_time_ms)


def barrier_headers(
    epoch: int, previous_commit_ms: int | None = None, traceparent: str | None = None
) -> Headers:
    """Return the headers of a barrier."""
    headers: Headers = [("ce_type", _BARRIER_TYPE), (EPOCH_HEADER, b"%d" % epoch)]
    if previous_commit_ms is not None:
        headers.append((PREVIOUS_COMMIT_HEADER, b"%d" % previous_commit_ms))
    if traceparent is not None:
        headers.append((TRACE_HEADER, traceparent.encode()))
    return headers


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _barrier_mark(message: Any, headers: dict[str, bytes | None]) -> BarrierMark | None:
    try:
        document = json.loads(message.value)
        barrier = Barrier(
            _whole(document["barrier"], NUMBER_MAX),
            _whole(document["market_time_ms"], MARKET_TIME_MS_MAX),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    epoch = _epoch(headers.get(EPOCH_HEADER))
    keys = {barrier.key().encode(), barrier.key(cyclic=True).encode()}
    if epoch is None or message.key not in keys:
        return None
    trace = _text(headers.get(TRACE_HEADER))
    return BarrierMark(barrier, epoch, message.timestamp, message.offset, trace)


def _whole(value: object, most: int) -> int:
    # `true` and 1.0 are equal to 1 and are not what a writer of barriers writes.
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{value!r} is not an integer from 0 to {most}")
    return value


def _epoch(value: bytes | None) -> int | None:
    if value is None or not value.isdigit() or len(value) > EPOCH_DIGITS:
        return None
    epoch = int(value)
    return epoch if epoch <= NUMBER_MAX else None


def parse_message(message: Any, topic: str) -> Record | BarrierMark:
    """Turn a consumed message of the topic with short name ``topic`` into a record or a barrier.

    Never raises: what is not readable stays bytes for the stage to judge, and what only looks like
    a barrier (a number out of range or of another kind, a key that is not its number's) is a
    record of the barrier's type: refused where the topic is judged, else a dead letter.
    """
    key: bytes = message.key or b""
    headers = dict(message.headers)
    kind = headers.get("ce_type")
    if kind == _BARRIER_TYPE and key.startswith(_BARRIER_PREFIX):
        mark = _barrier_mark(message, headers)
        if mark is not None:
            return mark
    return Record(
        topic,
        message.partition,
        message.offset,
        key.decode("utf-8", "replace"),
        "" if kind is None else kind.decode("utf-8", "replace"),
        message.value,
        None,
        _text(headers.get("ce_id")),
        _text(headers.get("ce_source")),
    )
