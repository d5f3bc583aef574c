"""Released examples: today's models still read them, and say the same again."""

import json
from pathlib import Path
from typing import Any

import pytest

from walras_contracts.edge import decode_edge
from walras_contracts.event import Event
from walras_contracts.generate import REPOSITORY, example_files, release_faults, released_examples
from walras_contracts.json_schema import event_name
from walras_contracts.registry import EVENTS, decode_inner

MODELS = {event_name(model): model for model in EVENTS}
FILES = example_files(REPOSITORY)
GOLDEN = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


def model_of(path: Path) -> type[Event]:
    return MODELS[path.parent.name]


@GOLDEN
def test_a_golden_payload_is_read_strictly_and_written_again_as_it_was(path: Path) -> None:
    model = model_of(path)
    golden = json.loads(path.read_text("utf-8"))
    event = decode_edge(model.TYPE, "golden", "test", path.read_bytes(), frozenset({model.TYPE}))
    assert isinstance(event, model), event
    assert decode_inner(model.TYPE, path.read_bytes()) == event
    again = json.loads(event.payload())
    assert pruned(again, golden) == golden
    if again == golden:
        compact = json.dumps(golden, separators=(",", ":"), ensure_ascii=False)
        assert event.payload() == compact.encode(), "the order of the fields has changed"


def pruned(whole: Any, pattern: Any) -> Any:
    """``whole`` without the members that ``pattern`` leaves to their defaults."""
    if isinstance(whole, dict) and isinstance(pattern, dict):
        return {name: pruned(whole[name], pattern[name]) for name in whole if name in pattern}
    if isinstance(whole, list) and isinstance(pattern, list) and len(whole) == len(pattern):
        return [pruned(one, other) for one, other in zip(whole, pattern, strict=True)]
    return whole


def test_pruning_hides_defaults_only() -> None:
    """Canary: a lost, changed or shortened value stays visible."""
    assert pruned({"a": 1, "b": [{"c": 2, "d": 3}]}, {"b": [{"c": 2}]}) == {"b": [{"c": 2}]}
    for whole in ({}, {"a": 2}, {"a": [1]}):
        assert pruned(whole, {"a": 1}) != {"a": 1}
    assert pruned([1], [1, 2]) == [1]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_event_has_at_least_two_examples_and_one_is_whole(name: str) -> None:
    mine = [path for path in FILES if path.parent.name == name]
    assert len(mine) >= 2
    fields = set(MODELS[name].model_fields)
    assert any(set(json.loads(path.read_text("utf-8"))) == fields for path in mine)


def test_every_example_belongs_to_an_event_and_is_released() -> None:
    names = {str(path.relative_to(REPOSITORY / "schemas/examples")) for path in FILES}
    assert names == set(released_examples(REPOSITORY)), (
        "a new example becomes a promise with `python -m walras_contracts.generate --release`"
    )
    assert {path.parent.name for path in FILES} == set(MODELS)


def test_nothing_released_was_edited_or_broken() -> None:
    assert release_faults(REPOSITORY) == []
