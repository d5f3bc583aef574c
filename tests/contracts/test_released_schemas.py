"""What today's build writes, the readers of the last release can read."""

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_contracts.event import Event
from walras_contracts.examples import arbitrary_event
from walras_contracts.generate import REPOSITORY, released_schema_path
from walras_contracts.json_schema import event_name, schema_of
from walras_contracts.registry import EVENTS

KEYWORDS = frozenset(
    {"$ref", "type", "const", "enum", "anyOf", "oneOf", "properties", "required", "items"}
    | {"minimum", "maximum", "minLength", "maxLength", "pattern", "minItems", "maxItems"}
    | {"uniqueItems", "x-distinct-by", "x-ascending-by", "additionalProperties"}
    | {"$schema", "$id", "$defs", "title", "description", "default", "discriminator"}
)
TYPES: dict[str, type] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def valid(node: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    """Validate what our schemas use; unknown members pass, as they do for readers inside."""
    assert node.keys() <= KEYWORDS, f"teach this validator {sorted(node.keys() - KEYWORDS)}"
    if "$ref" in node:
        return valid(root["$defs"][node["$ref"].rpartition("/")[2]], value, root)
    if "anyOf" in node:
        return any(valid(choice, value, root) for choice in node["anyOf"])
    if "oneOf" in node:
        return sum(valid(choice, value, root) for choice in node["oneOf"]) == 1
    kind, given = node["type"], value
    if not isinstance(value, TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
        return False
    if ("const" in node and value != node["const"]) or value not in node.get("enum", [value]):
        return False
    checks: dict[str, Callable[[], bool]] = {
        "integer": lambda: bool(node["minimum"] <= value <= node["maximum"]),
        "string": lambda: valid_string(node, given),
        "array": lambda: valid_array(node, given, root),
        "object": lambda: valid_object(node, given, root),
    }
    return checks[kind]() if kind in checks else True


def valid_string(node: dict[str, Any], value: str) -> bool:
    if not node.get("minLength", 0) <= len(value) <= node.get("maxLength", len(value)):
        return False
    return "pattern" not in node or re.fullmatch(node["pattern"][1:-1], value) is not None


def valid_object(node: dict[str, Any], value: dict[str, Any], root: dict[str, Any]) -> bool:
    return all(name in value for name in node.get("required", [])) and all(
        valid(field, value[name], root)
        for name, field in node["properties"].items()
        if name in value
    )


def valid_array(node: dict[str, Any], value: list[Any], root: dict[str, Any]) -> bool:
    if not node.get("minItems", 0) <= len(value) <= node.get("maxItems", len(value)):
        return False
    if not all(valid(node["items"], item, root) for item in value):
        return False
    if node.get("uniqueItems") and len(set(value)) != len(value):
        return False
    ascending = node.get("x-ascending-by")
    key = ascending or node.get("x-distinct-by")
    names = [item[key] for item in value] if key else []
    return len(set(names)) == len(names) and (not ascending or names == sorted(names))


def released(model: type[Event]) -> dict[str, Any]:
    path = released_schema_path(REPOSITORY, event_name(model))
    schema: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return schema


MODELS = pytest.mark.parametrize("model", EVENTS, ids=lambda model: model.TYPE)


@MODELS
@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=25)
def test_todays_payloads_fit_the_released_schema(model: type[Event], seed: int) -> None:
    schema = released(model)
    payload = json.loads(arbitrary_event(model, Random(seed)).payload())
    assert valid(schema, payload, schema), payload


@MODELS
def test_every_event_that_is_on_a_topic_is_released(model: type[Event]) -> None:
    assert released_schema_path(REPOSITORY, event_name(model)).is_file()


@MODELS
def test_the_validator_refuses_each_field_when_it_is_wrong(model: type[Event]) -> None:
    """Canary: missing, of another type, out of range."""
    schema = schema_of(model)
    document = json.loads(arbitrary_event(model, Random(1)).payload())
    assert valid(schema, document, schema)
    for name, field in schema["properties"].items():
        assert not valid(schema, {**document, name: 1.5}, schema)
        if name in schema["required"]:
            assert not valid(schema, {k: v for k, v in document.items() if k != name}, schema)
        if "maximum" in field:
            assert not valid(schema, {**document, name: field["maximum"] + 1}, schema)
        if "pattern" in field:
            assert not valid(schema, {**document, name: "a//b c"}, schema)
