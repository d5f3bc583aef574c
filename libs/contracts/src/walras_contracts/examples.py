"""Arbitrary valid events, for tests and load: drawn from a source of randomness that is passed in.

Values sit on and near the borders of their ranges more often than chance would have it.
"""

import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, TypeVar

from walras_contracts.accounts import ZONE_PATTERN
from walras_contracts.charges import (
    CHARGE_ID_PATTERN,
    MACC_MS_PATTERN,
    NUMERATOR_PATTERN,
    ChargeCredited,
    ChargePending,
    ChargeRated,
)
from walras_contracts.demand import JobQueued, JobSubmitted
from walras_contracts.event import Event
from walras_contracts.identifiers import ID_PATTERN, JOB_KEY_PATTERN
from walras_contracts.invoices import InvoicePublished
from walras_contracts.json_schema import Schema, schema_of
from walras_contracts.ledger import ACCOUNT_PATTERN, EXACT_PATTERN, LedgerEntryPosted
from walras_contracts.market import (
    FRAME_JOB_COLUMNS,
    FRAME_TEAM_COLUMNS,
    CycleFramed,
    CycleRecorded,
    FrameKind,
    MarketState,
    PriceGapPublished,
)
from walras_contracts.runs import (
    ARGUMENT_PATTERN,
    LOOPBACK_PATTERN,
    VARIABLE_PATTERN,
    WarningKind,
)
from walras_contracts.usage_settled import SIGNED_MACC_MS_PATTERN, UsageSettled
from walras_contracts.work import LeaseGranted, UsageMetered

E = TypeVar("E", bound=Event)

_ID_FIRST = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_ID_REST = _ID_FIRST + "._-"
_TEXT = _ID_REST + ' /~"\\\n\t\x00µ×é€字😀'
_ITEMS_MAX = 4


def arbitrary_event(model: type[E], random: Random) -> E:
    """Return a valid event of the type; the same random source gives the same event."""
    return model.model_validate_json(json.dumps(arbitrary_document(model, random)))


def arbitrary_document(model: type[Event], random: Random) -> dict[str, Any]:
    """Return a valid payload as a JSON object; optional fields are left out now and then."""
    schema = _schema(model)
    document: dict[str, Any] = _object(schema, schema, random)
    if model in _REPAIRS:
        _REPAIRS[model](document)
    return document


@cache
def _schema(model: type[Event]) -> Schema:
    return schema_of(model)


def _value(node: Schema, root: Schema, random: Random) -> Any:
    if "$ref" in node:
        return _value(root["$defs"][node["$ref"].rpartition("/")[2]], root, random)
    if "const" in node:
        return node["const"]
    if "enum" in node:
        return random.choice(node["enum"])
    if choices := node.get("anyOf", node.get("oneOf")):
        return _value(random.choice(choices), root, random)
    makers: dict[str, Callable[[], Any]] = {
        "null": lambda: None,
        "boolean": lambda: random.random() < 0.5,
        "integer": lambda: _integer(node, random),
        "string": lambda: _string(node, random),
        "array": lambda: _array(node, root, random),
        "object": lambda: _object(node, root, random),
    }
    return makers[node["type"]]()


def _integer(node: Schema, random: Random) -> int:
    low, high = node["minimum"], node["maximum"]
    return random.choice(
        (
            low,
            high,
            min(low + 1, high),
            random.randint(low, high),
            min(low + random.randrange(50), high),
        )
    )


def _string(node: Schema, random: Random) -> str:
    maker = _PATTERNS.get(node.get("pattern", ""))
    if maker is not None:
        return maker(random)
    low, high = node.get("minLength", 0), node["maxLength"]
    length = min(high, low + random.choice((0, 1, 5, 20)))
    return "".join(random.choice(_TEXT) for _ in range(length))


def _account(random: Random) -> str:
    kinds = ("wallet", "mint", "revenue", "credits", "expired", "rounding")
    return f"{random.choice(kinds)}/{_id(random)}"


def _exact(random: Random) -> str:
    return f"{random.randint(-(10**40), 10**40)}/{random.randint(1, 10**12)}"


def _id(random: Random) -> str:
    length = random.choice((0, 1, 3, 8, 62))
    return random.choice(_ID_FIRST) + "".join(random.choice(_ID_REST) for _ in range(length))


_PATTERNS: dict[str, Callable[[Random], str]] = {
    ID_PATTERN: _id,
    JOB_KEY_PATTERN: lambda random: f"{_id(random)}/{_id(random)}",
    CHARGE_ID_PATTERN: lambda random: f"{random.getrandbits(128):032x}",
    NUMERATOR_PATTERN: lambda random: str(
        random.choice((0, -1, 1, random.randint(-(10**60), 10**60) // 10))
    ),
    MACC_MS_PATTERN: lambda random: str(random.choice((0, 1, random.randint(0, 10**39)))),
    SIGNED_MACC_MS_PATTERN: lambda random: str(
        random.choice((0, -1, 1, random.randint(-(10**39), 10**39)))
    ),
    ACCOUNT_PATTERN: _account,
    EXACT_PATTERN: _exact,
    ARGUMENT_PATTERN: lambda random: "".join(
        random.choice(_TEXT.replace("\x00", "")) for _ in range(random.choice((0, 1, 20)))
    ),
    VARIABLE_PATTERN: lambda random: f"V{random.randrange(100)}",
    LOOPBACK_PATTERN: lambda random: f"http://127.0.0.1:{random.randint(1, 65_535)}/leave?a=1",
    ZONE_PATTERN: lambda random: random.choice(("UTC", "Europe/Budapest", "America/Juneau")),
}


def _array(node: Schema, root: Schema, random: Random) -> list[Any]:
    low = node.get("minItems", 0)
    count = random.randint(low, max(low, _ITEMS_MAX))
    items = [_value(node["items"], root, random) for _ in range(count)]
    if node.get("uniqueItems"):
        return list(dict.fromkeys(items))
    key = node.get("x-distinct-by", node.get("x-ascending-by"))
    if key is None:
        return items
    distinct = {item[key]: item for item in items}
    return [distinct[name] for name in sorted(distinct)]


def _object(node: Schema, root: Schema, random: Random) -> dict[str, Any]:
    required = node.get("required", [])
    return {
        name: _value(field, root, random)
        for name, field in node["properties"].items()
        if name in required or random.random() < 0.8
    }


def _interval(document: dict[str, Any]) -> None:
    if document["end_ms"] <= document["start_ms"]:
        start_ms = min(document["start_ms"], _border(UsageMetered, "start_ms") - 1)
        document["start_ms"], document["end_ms"] = start_ms, start_ms + 1


def _lease(document: dict[str, Any]) -> None:
    _part(document, LeaseGranted)
    _run(document)


def _run(document: dict[str, Any]) -> None:
    run = document.get("run")
    if run is None:
        return
    if run.get("warning") != WarningKind.HTTP:
        run["warning_url"] = None
    elif run.get("warning_url") is None:
        run["warning_url"] = "http://localhost:8000/"


def _frame(document: dict[str, Any]) -> None:
    _part(document, CycleFramed)
    for columns, removed in (
        (FRAME_JOB_COLUMNS, "removed_jobs"),
        (FRAME_TEAM_COLUMNS, "removed_teams"),
    ):
        # Of rows with one name the last counts; the shortest column says how many there are.
        rows = {row[0]: row for row in zip(*(document[name] for name in columns), strict=False)}
        for place, name in enumerate(columns):
            document[name] = [row[place] for row in rows.values()]
        gone = [] if document["kind"] == "key" else dict.fromkeys(document[removed])
        document[removed] = [name for name in gone if name not in rows]


def _head(document: dict[str, Any]) -> None:
    if document["state"] != MarketState.CLEARED:
        document["frame"] = FrameKind.NONE.value
        document["frames"] = document["jobs"] = document["teams"] = 0
        return
    if document["frame"] == FrameKind.NONE:
        document["frame"] = FrameKind.KEY.value
    document["frames"] = max(1, document["frames"])


def _part(document: dict[str, Any], model: type[Event]) -> None:
    if document["part"] >= document["parts"]:
        part = min(document["part"], _border(model, "part") - 1)
        document["part"], document["parts"] = part, part + 1


def _job(document: dict[str, Any]) -> None:
    deadline_ms = document.get("deadline_ms")
    if deadline_ms is not None and deadline_ms <= document["submitted_ms"]:
        document["deadline_ms"] = None
    _run(document)


def _entry(document: dict[str, Any]) -> None:
    """Let the lines sum to zero: halved, so that the last one stays in range."""
    lines = document["lines"]
    for line in lines[:-1]:
        line["amount_micro"] //= len(lines)
    lines[-1]["amount_micro"] = -sum(line["amount_micro"] for line in lines[:-1])


def _held(document: dict[str, Any]) -> None:
    """Let held be the sum of the other three and what nobody measured."""
    parts = [f"{name}_macc_ms" for name in ("occupied", "allocated", "idle", "unmeasured")]
    document["held_macc_ms"] = str(sum(int(document[name]) for name in parts))
    times_ms = document["boundary_ms"], document["settled_ms"]
    document["boundary_ms"], document["settled_ms"] = min(times_ms), max(times_ms)


def _invoice(document: dict[str, Any]) -> None:
    lines = document["lines"]
    for line in lines:
        line["amount_micro"] //= len(lines)
        line["amount_numerator"] = str(int(line["amount_numerator"]) // 10)
    document["payable_micro"] = sum(line["amount_micro"] for line in lines)
    document["amount_numerator"] = str(sum(int(line["amount_numerator"]) for line in lines))
    document["team"] = (document["team"] or "team") if document["scope"] == "team" else None
    _interval(document)


def _border(model: type[Event], field: str) -> int:
    highest: int = _schema(model)["properties"][field]["maximum"]
    return highest


_REPAIRS: dict[type[Event], Callable[[dict[str, Any]], None]] = {
    UsageMetered: _interval,
    ChargeRated: _interval,
    ChargePending: _interval,
    ChargeCredited: _interval,
    PriceGapPublished: _interval,
    LedgerEntryPosted: _entry,
    UsageSettled: _held,
    InvoicePublished: _invoice,
    LeaseGranted: _lease,
    CycleFramed: _frame,
    CycleRecorded: _head,
    JobSubmitted: _job,
    JobQueued: _run,
}
"""Rules between fields, which a JSON Schema does not state."""
