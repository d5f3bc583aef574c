"""What is wrong with a record that does not fit the contract of usage, and what it says still."""

import re
from typing import Any, Final, NamedTuple, TypeGuard

from pydantic import ValidationError

from walras.audit.log_view import Entry
from walras.audit.rows import DAY_MS, RATE_DENOMINATOR
from walras_contracts.identifiers import ID_PATTERN
from walras_contracts.quantities import (
    LIMIT_MICRO_MAX,
    MACC_MAX,
    MARKET_TIME_MS_MAX,
    MICRO_MAX,
    MICRO_PER_HOUR_MAX,
    NUMBER_MAX,
    PPM,
)
from walras_contracts.strict_json import StrictJsonError, parse
from walras_contracts.work import UsageMetered

RANGES: Final = (
    ("quantity_macc", MACC_MAX),
    ("seq", NUMBER_MAX),
    ("limit_micro", LIMIT_MICRO_MAX),
    ("tariff_ppm", 1000 * PPM),
)
WEIGHT_MAX: Final = MICRO_MAX * RATE_DENOMINATOR // MICRO_PER_HOUR_MAX
"""The most tariff_ppm × macc × ms of a record: at 10¹⁵ µcr an accelerator-hour it costs all that an
entry of the ledger can say."""
_ID: Final = re.compile(ID_PATTERN)


class Said(NamedTuple):
    """Team, pool and use that a record names, as far as it does."""

    team: str | None
    pool: str | None
    macc_ms: int | None


def said_by(entry: Entry) -> Said:
    """Return what a record names, however wrong the rest of it is."""
    try:
        body = parse(entry.value or b"")
    except StrictJsonError:
        return Said(None, None, None)
    if not isinstance(body, dict):
        return Said(None, None, None)
    names = [body.get(name) for name in ("team", "pool")]
    team, pool = [n if isinstance(n, str) and _ID.match(n) else None for n in names]
    start_ms, end_ms, macc = (body.get(n) for n in ("start_ms", "end_ms", "quantity_macc"))
    if not (_is_whole(start_ms) and _is_whole(end_ms) and _is_whole(macc)):
        return Said(team, pool, None)
    if not (0 <= start_ms <= end_ms <= NUMBER_MAX and 0 <= macc <= NUMBER_MAX):
        return Said(team, pool, None)
    return Said(team, pool, macc * (end_ms - start_ms))


def form_code(entry: Entry) -> str:
    """Return the first fault, by precedence, of a record that does not fit the contract."""
    try:
        body = parse(entry.value or b"")
    except StrictJsonError:
        return "malformed"
    if entry.type != UsageMetered.TYPE or not isinstance(body, dict):
        return "malformed"
    found = _interval_code(body) or _amount_code(body) or _class_code(entry.value or b"")
    return found or "malformed"


def size_code(tariff_ppm: int, macc: int, length_ms: int) -> str | None:
    """Return that a record's use is more than amounts can say; None: it is not."""
    return "out_of_range" if tariff_ppm * macc * length_ms > WEIGHT_MAX else None


def _interval_code(body: dict[str, Any]) -> str | None:
    start_ms, end_ms = body.get("start_ms"), body.get("end_ms")
    if not all(value is None or _is_whole(value) for value in (start_ms, end_ms)):
        return None
    if start_ms is None:
        return "stop_without_start"
    if end_ms is None:
        return "start_without_stop"
    rules = (
        (min(start_ms, end_ms) < 0, "negative_time"),
        (end_ms < start_ms, "reversed_interval"),
        (end_ms == start_ms, "empty_interval"),
        (end_ms - start_ms > DAY_MS, "longer_than_a_day"),
        (end_ms > MARKET_TIME_MS_MAX, "out_of_range"),
    )
    return next((code for is_broken, code in rules if is_broken), None)


def _amount_code(body: dict[str, Any]) -> str | None:
    values: dict[str, int] = {}
    for name, _ in RANGES:
        value = body.get(name)
        if name == "limit_micro" and value is None:
            value = 0
        if not _is_whole(value):
            return None
        values[name] = value
    if values["quantity_macc"] < 1:
        return "quantity_not_positive"
    if not all(0 <= values[name] <= most for name, most in RANGES):
        return "out_of_range"
    start_ms, end_ms = body.get("start_ms"), body.get("end_ms")
    if not (_is_whole(start_ms) and _is_whole(end_ms)):
        return None
    return size_code(values["tariff_ppm"], values["quantity_macc"], end_ms - start_ms)


def _class_code(value: bytes) -> str | None:
    """Return that the class is unknown where that is the first fault in the contract's order."""
    try:
        UsageMetered.model_validate_json(value, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["loc"] == ("work_class",) and first["type"] == "enum":
            return "unknown_class"
    return None


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
