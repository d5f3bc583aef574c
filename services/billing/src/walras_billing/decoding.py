"""From the bytes of a usage record to the record, or to a coded fault.

Billing reads usage undecoded: what a source says wrongly is quarantined with its coordinates, like
all usage that is not charged, instead of being a dead letter among others.
"""

import re
from typing import Any, Final, TypeGuard

from pydantic import ValidationError

from walras_billing.usage_faults import Fault, UsageFault, amounts_fault, interval_fault
from walras_contracts.identifiers import ID_PATTERN
from walras_contracts.json_path import json_path
from walras_contracts.quantities import NUMBER_MAX
from walras_contracts.registry import (
    UndecodableError,
    UnknownVersionError,
    decode_inner,
    types_on,
)
from walras_contracts.strict_json import StrictJsonError, parse
from walras_contracts.work import UsageMetered
from walras_runtime.errors import PartitionStoppedError
from walras_runtime.records import Record

_ID: Final = re.compile(ID_PATTERN)
_TYPES: Final = types_on(UsageMetered.TOPIC)


def decode_usage(record: Record) -> UsageMetered | Fault:
    """Read a usage record; unknown fields of its version are ignored.

    Raises
    ------
    PartitionStoppedError
        It is of a version that this build does not know: charging past it would be wrong.
    """
    try:
        event = decode_inner(record.type, record.value or b"", _TYPES)
    except UnknownVersionError as error:
        raise PartitionStoppedError(
            f"{record.topic}/{record.partition}@{record.offset}: {error}; "
            "deploy a build that knows it, then restart"
        ) from error
    except UndecodableError as error:
        return _fault(record, error)
    assert isinstance(event, UsageMetered)
    # What the model does not see to: how long it is, and what it weighs.
    amounts = (event.quantity_macc, event.seq, event.limit_micro, event.tariff_ppm)
    return (
        interval_fault(event.start_ms, event.end_ms)
        or amounts_fault(*amounts, event.end_ms - event.start_ms)
        or event
    )


def said_by(record: Record) -> tuple[str | None, str | None, int | None]:
    """Return the team, the pool and the macc × ms that a faulty record names, as far as it does."""
    try:
        body = parse(record.value or b"")
    except StrictJsonError:
        return None, None, None
    if not isinstance(body, dict):
        return None, None, None
    team, pool = (_id_or_none(body.get(name)) for name in ("team", "pool"))
    start_ms, end_ms, quantity = (body.get(n) for n in ("start_ms", "end_ms", "quantity_macc"))
    if not (_is_whole(start_ms) and _is_whole(end_ms) and _is_whole(quantity)):
        return team, pool, None
    if not (0 <= start_ms <= end_ms <= NUMBER_MAX and 0 <= quantity <= NUMBER_MAX):
        return team, pool, None
    return team, pool, quantity * (end_ms - start_ms)


def _id_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and _ID.match(value) else None


def _fault(record: Record, error: UndecodableError) -> Fault:
    """Return the first fault by precedence of a record that does not decode."""
    malformed = Fault(UsageFault.MALFORMED, str(error)[:500])
    try:
        body = parse(record.value or b"")
    except StrictJsonError as unreadable:
        return Fault(UsageFault.MALFORMED, unreadable.reason[:500])
    if record.type not in _TYPES or not isinstance(body, dict):
        return malformed
    start_ms, end_ms, length_ms = body.get("start_ms"), body.get("end_ms"), 0
    if _is_whole_or_none(start_ms) and _is_whole_or_none(end_ms):
        found = interval_fault(start_ms, end_ms)
        if found is not None:
            return found
        assert start_ms is not None
        assert end_ms is not None
        length_ms = end_ms - start_ms
    quantity, seq = body.get("quantity_macc"), body.get("seq")
    limit, tariff = body.get("limit_micro"), body.get("tariff_ppm")
    if _is_whole(quantity) and _is_whole(seq) and _is_whole_or_none(limit) and _is_whole(tariff):
        found = amounts_fault(quantity, seq, limit, tariff, length_ms)
        if found is not None:
            return found
    if isinstance(error.__cause__, ValidationError):
        first = error.__cause__.errors(include_url=False, include_input=False)[0]
        if first["loc"] == ("work_class",) and first["type"] == "enum":
            return Fault(UsageFault.UNKNOWN_CLASS, f"{json_path(first['loc'])}: {first['msg']}")
    return malformed


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_whole_or_none(value: Any) -> TypeGuard[int | None]:
    return value is None or _is_whole(value)
