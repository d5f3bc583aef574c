"""JSON text read without tolerance: what the standard leaves open is refused here.

The standard library alone takes ``NaN``, keeps the last of two equal keys, lets half of a
surrogate pair pass and nests as deep as the stack of its caller allows; each of these would make
two readers of one record disagree.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from walras_contracts.json_path import Location, json_path, quoted
from walras_contracts.rejections import RejectionCode

DEPTH_MAX = 32
"""Deepest nesting of arrays and objects; no event needs more than four."""

# A string (closed or not) or a bracket. The possessive repeat keeps it linear in any text.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_INTEGER_DIGITS_MAX = 40
_BEYOND: Final[int] = 10**40


class StrictJsonError(ValueError):
    """The bytes are not acceptable JSON."""

    retriable = False

    def __init__(self, code: RejectionCode, path: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.path = path
        self.reason = reason


def parse(payload: bytes) -> Any:
    """Read one JSON value.

    Where an integer has more digits than Python converts (4,300), those of more than 40 digits
    come back as ±10⁴⁰, which is out of every range.

    Raises
    ------
    StrictJsonError
        With ``INVALID_UTF8`` or ``INVALID_JSON``.
    """
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrictJsonError(
            RejectionCode.INVALID_UTF8, "", f"byte {error.start} is not valid UTF-8"
        ) from error
    if not text.strip(" \t\r\n"):
        raise StrictJsonError(RejectionCode.INVALID_JSON, "", "empty")
    _check_depth(text)
    try:
        value = _decoded(text)
    except json.JSONDecodeError as error:
        raise StrictJsonError(
            RejectionCode.INVALID_JSON,
            "",
            f"{error.msg.removesuffix(' at')} at character {error.pos}",
        ) from error
    if _SURROGATE_ESCAPE.search(text):
        _check_surrogates(value, ())
    return value


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (json.JSONDecodeError, StrictJsonError):
        raise
    except ValueError:  # an integer of more digits than Python converts
        return _LONG_INTEGER_DECODER.decode(text)


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return
    depth = 0
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        if first in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise StrictJsonError(
                    RejectionCode.INVALID_JSON, "", f"nested deeper than {DEPTH_MAX} levels"
                )
        elif first in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise StrictJsonError(
                    RejectionCode.INVALID_JSON, "", f"the key {quoted(key)} occurs twice"
                )
            seen.add(key)
    return members


def _constant(name: str) -> NoReturn:
    raise StrictJsonError(RejectionCode.INVALID_JSON, "", f"{name} is not JSON")


def _integer(digits: str) -> int:
    if len(digits) <= _INTEGER_DIGITS_MAX:
        return int(digits)
    return -_BEYOND if digits[0] == "-" else _BEYOND


def _check_surrogates(value: Any, location: Location) -> None:
    strings: Iterable[str] = ()
    children: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, str):
        strings = (value,)
    elif isinstance(value, dict):
        strings = value
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for text in strings:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise StrictJsonError(
                RejectionCode.INVALID_JSON, json_path(location), "half of a surrogate pair"
            )
    for key, child in children:
        _check_surrogates(child, (*location, key))


# Built once: a decoder with hooks costs more to make than a job costs to read. Long integers have
# a decoder of their own, because a hook for integers doubles the time of all other events.
_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
_LONG_INTEGER_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer
)
