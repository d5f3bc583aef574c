"""Strict decoding of what the outside sends: an event, or a coded rejection; never an exception.

Every reader of an edge topic calls it. The order of the checks is the order of
:class:`RejectionCode`; of several faults in one payload the first code wins, and within a code
the first field of the model.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from walras_contracts.accounts import AccountsRequested
from walras_contracts.event import Event
from walras_contracts.json_path import Location, clipped, json_path, quoted
from walras_contracts.registry import BY_TYPE, family_of
from walras_contracts.rejections import Rejection, RejectionCode
from walras_contracts.strict_json import StrictJsonError, parse

PAYLOAD_BYTES_MAX: Final = 64 * 1024
LARGE_PAYLOAD_BYTES_MAX: Final[Mapping[str, int]] = {AccountsRequested.TYPE: 512 * 1024}
"""Event types that may be larger: a pool's document names all of its teams."""
EVENT_ID_LENGTH_MAX: Final = 200
SOURCE_LENGTH_MAX: Final = 500
REASON_LENGTH_MAX: Final = 500

_VERSIONED = re.compile(r"(walras\.[^\s]+)\.v[^.]*")
_PRECEDENCE: Final[dict[RejectionCode, int]] = {c: i for i, c in enumerate(RejectionCode)}

_NEEDED: Final[dict[str, str]] = {
    "int_type": "an integer",
    "string_type": "a string",
    "bool_type": "true or false",
    "tuple_type": "an array",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "enum": "a string",
    "literal_error": "a string",
}
_CHOICES: Final = frozenset({"enum", "literal_error"})
_RULES: Final[dict[str, tuple[RejectionCode, str]]] = {
    "missing": (RejectionCode.MISSING_FIELD, "the field is required"),
    "extra_forbidden": (RejectionCode.UNKNOWN_FIELD, "the field is not known"),
    "greater_than_equal": (RejectionCode.OUT_OF_RANGE, "must be at least {ge}"),
    "less_than_equal": (RejectionCode.OUT_OF_RANGE, "must be at most {le}"),
    "too_short": (RejectionCode.OUT_OF_RANGE, "needs at least {min_length} items"),
    "too_long": (RejectionCode.OUT_OF_RANGE, "takes at most {max_length} items"),
    "enum": (RejectionCode.INVALID_VALUE, "must be {expected}"),
    "literal_error": (RejectionCode.INVALID_VALUE, "must be {expected}"),
    "string_pattern_mismatch": (RejectionCode.INVALID_VALUE, "must match {pattern}"),
    "string_too_short": (RejectionCode.INVALID_VALUE, "needs at least {min_length} characters"),
    "string_too_long": (RejectionCode.INVALID_VALUE, "takes at most {max_length} characters"),
    "value_error": (RejectionCode.INVALID_VALUE, "{error}"),
}
"""Kind of fault (pydantic's name) → code and rule."""
_KINDS: Final[dict[type, str]] = {
    bool: "true or false",
    int: "an integer",
    float: "a number with a fraction or an exponent",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def decode_edge(
    event_type: str | None,
    event_id: str | None,
    source: str | None,
    payload: bytes | None,
    accepted: frozenset[str],
) -> Event | Rejection:
    """Read one event from outside.

    Parameters
    ----------
    event_type, event_id, source
        CloudEvents attributes (binary mode); ``None`` where the header is missing.
    payload
        Value of the record; ``None`` for a tombstone.
    accepted
        Event types that the topic takes.

    Returns
    -------
    Event | Rejection
        The event, every field within its range, or the first fault by precedence. Paths are
        JSON paths into the payload, ``ce_id``, ``ce_source`` or ``ce_type`` for an attribute, and
        empty for the record as a whole.
    """
    most = payload_bytes_max(event_type if event_type in accepted else None)
    if payload is not None and len(payload) > most:
        return Rejection(
            RejectionCode.EVENT_TOO_LARGE, "", f"{len(payload)} bytes; an event has at most {most}"
        )
    # Events are told apart by source and id together (CloudEvents 1.0), so both are needed.
    for attribute, value in (("ce_id", event_id), ("ce_source", source)):
        if not value:
            return Rejection(RejectionCode.MISSING_EVENT_ID, attribute, "the attribute is required")
    model = _model_of(event_type, accepted)
    if isinstance(model, Rejection):
        return model
    try:
        document = parse(payload or b"")
        event = model.model_validate(document)
    except StrictJsonError as error:
        return Rejection(error.code, error.path, clipped(error.reason, REASON_LENGTH_MAX))
    except ValidationError as error:
        tagged = _tagged_fields(model)
        faults = [
            _fault(details, tagged)
            for details in error.errors(include_url=False)
            if not _is_echo(details)
        ]
        return min(faults, key=lambda fault: _PRECEDENCE[fault.code])
    return _identity_fault(event_id or "", source or "") or event


def payload_bytes_max(event_type: str | None) -> int:
    """Return how many bytes the payload of an event may have; of an unknown one, the usual."""
    return LARGE_PAYLOAD_BYTES_MAX.get(event_type or "", PAYLOAD_BYTES_MAX)


def _model_of(event_type: str | None, accepted: frozenset[str]) -> type[Event] | Rejection:
    if not event_type:
        return Rejection(RejectionCode.UNKNOWN_EVENT_TYPE, "ce_type", "the attribute is required")
    model = BY_TYPE.get(event_type) if event_type in accepted else None
    if model is not None:
        return model
    name = _VERSIONED.fullmatch(event_type)
    if name and any(family_of(known) == name[1] for known in accepted):
        return Rejection(
            RejectionCode.UNKNOWN_EVENT_VERSION,
            "ce_type",
            f"{quoted(event_type)} is of a version that is not known here",
        )
    return Rejection(
        RejectionCode.UNKNOWN_EVENT_TYPE,
        "ce_type",
        f"{quoted(event_type)} is not accepted on this topic",
    )


def _identity_fault(event_id: str, source: str) -> Rejection | None:
    """Attributes that are there but unfit to be recorded: too long, or not Unicode."""
    for attribute, value, most in (
        ("ce_id", event_id, EVENT_ID_LENGTH_MAX),
        ("ce_source", source, SOURCE_LENGTH_MAX),
    ):
        if len(value) > most:
            return Rejection(
                RejectionCode.INVALID_VALUE, attribute, f"longer than {most} characters"
            )
        if any("\ud800" <= character <= "\udfff" for character in value):
            return Rejection(RejectionCode.INVALID_VALUE, attribute, "half of a surrogate pair")
    return None


@cache
def _tagged_fields(model: type[Event]) -> dict[str, str]:
    """Fields that hold one of several kinds of objects, with the name of what tells them apart."""
    return {
        name: field.discriminator
        for name, field in model.model_fields.items()
        if isinstance(field.discriminator, str)
    }


def _fault(details: ErrorDetails, tagged: Mapping[str, str]) -> Rejection:
    kind, location = details["type"], details["loc"]
    if location and location[0] in tagged:
        tag = tagged[str(location[0])]
        if kind in {"union_tag_not_found", "union_tag_invalid"}:
            return _tag_fault(details, (location[0], tag), tag)
        # pydantic names the chosen kind as a step of its own; the payload has no such step.
        location = (location[0], *location[2:])
    code, reason = _explained(kind, details)
    return Rejection(code, json_path(location), clipped(reason, REASON_LENGTH_MAX))


def _is_echo(details: ErrorDetails) -> bool:
    """Whether an array is called too short only because pydantic dropped its faulty items."""
    given: Any = details["input"]
    return (
        details["type"] == "too_short"
        and isinstance(given, list)
        and len(given) >= details["ctx"]["min_length"]
    )


def _tag_fault(details: ErrorDetails, location: Location, tag: str) -> Rejection:
    given: Any = details["input"]
    if not isinstance(given, dict) or tag not in given:
        return Rejection(RejectionCode.MISSING_FIELD, json_path(location), "the field is required")
    if not isinstance(given[tag], str):
        reason = f"a string is needed, got {_kind_of(given[tag])}"
        return Rejection(RejectionCode.WRONG_TYPE, json_path(location), reason)
    expected = details.get("ctx", {}).get("expected_tags", "")
    return Rejection(RejectionCode.INVALID_VALUE, json_path(location), f"must be one of {expected}")


def _explained(kind: str, details: ErrorDetails) -> tuple[RejectionCode, str]:
    """Code and reason of a fault; the reason names the rule, never the value."""
    limits: Mapping[str, Any] = details.get("ctx", {})
    given: Any = details["input"]
    if kind in _NEEDED and not (isinstance(given, str) and kind in _CHOICES):
        return RejectionCode.WRONG_TYPE, f"{_NEEDED[kind]} is needed, got {_kind_of(given)}"
    if kind in _RULES:
        code, rule = _RULES[kind]
        return code, rule.format_map(limits)
    return RejectionCode.INVALID_VALUE, details["msg"]


def _kind_of(value: object) -> str:
    return "null" if value is None else _KINDS[type(value)]
