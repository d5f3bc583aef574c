"""What counts as a breaking change of a released event."""

import copy
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from walras_contracts.compatibility import breaking_changes
from walras_contracts.demand import JobSubmitted
from walras_contracts.event import Event
from walras_contracts.json_schema import Schema, schema_of
from walras_contracts.quantities import Count, LimitMicro, Macc
from walras_contracts.registry import EVENTS


class Bid(Event):
    """The released event."""

    TYPE: ClassVar[str] = "walras.bid.v1"
    TOPIC: ClassVar[str] = "bids"

    team: str
    size_macc: Macc
    gang: bool = True


class BidWithLimit(Bid):
    """A later one: the limit is new and has a default."""

    limit_micro: LimitMicro | None = 500


class BidWithRequiredLimit(Bid):
    """A later one that old records cannot satisfy."""

    limit_micro: LimitMicro | None


class BidRenamed(Event):
    """A later one whose field has another name."""

    TYPE: ClassVar[str] = "walras.bid.v1"
    TOPIC: ClassVar[str] = "bids"

    owner: str = ""
    size_macc: Macc
    gang: bool = True


class BidNarrowed(Bid):
    """A later one with a narrower range."""

    size_macc: Annotated[int, Field(strict=True, ge=1, le=10**15)]


class BidRetyped(Bid):
    """A later one with another type."""

    size_macc: str  # type: ignore[assignment]


class BidNowOptional(Bid):
    """A later one where a field may be left out."""

    size_macc: Count = 0


V1 = b'{"team":"a","size_macc":8,"gang":false}'


def test_an_old_record_shows_the_default_of_a_later_field() -> None:
    later = BidWithLimit.model_validate_json(V1, extra="ignore")
    assert later == BidWithLimit(team="a", size_macc=8, gang=False, limit_micro=500)
    assert Bid.model_validate_json(later.payload(), extra="ignore") == Bid.model_validate_json(V1)


@pytest.mark.parametrize(
    ("later", "changes"),
    [
        (Bid, []),
        (BidWithLimit, []),
        (BidWithRequiredLimit, ["$.limit_micro: new field without a default"]),
        (BidRenamed, ["$.team: field removed"]),
        (BidNarrowed, ["$.size_macc: range narrowed: minimum 0 is now 1"]),
        (BidRetyped, ["$.size_macc: type changed from integer to string"]),
        (
            BidNowOptional,
            [
                "$.size_macc: the field is now optional",
                "$.size_macc: range narrowed: maximum 1000000000000000 is now 1000000000",
                "$.size_macc: default changed from none to 0",
            ],
        ),
    ],
)
def test_a_field_with_a_default_may_be_added_and_nothing_else(
    later: type[Event], changes: list[str]
) -> None:
    assert breaking_changes(schema_of(Bid), schema_of(later)) == changes


def submitted() -> Schema:
    return schema_of(JobSubmitted)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s["$defs"]["Drainability"]["enum"].remove("none"), "value 'none' removed"),
        (lambda s: s["$defs"]["Drainability"]["enum"].append("slow"), "value 'slow' added"),
        (lambda s: s["properties"]["size_macc"].update(maximum=10**16), "range widened"),
        (lambda s: s["properties"]["size_macc"].pop("minimum"), "range widened"),
        (lambda s: s["properties"]["gang"].update(default=False), "default changed"),
        (lambda s: s["properties"]["gang"].pop("default"), "default changed"),
        (lambda s: s["properties"]["team"].update(pattern="^a$"), "pattern changed"),
        (lambda s: s["properties"]["types"].update(maxItems=15), "maxItems changed"),
        (lambda s: s["properties"]["types"].pop("uniqueItems"), "uniqueItems changed"),
        (lambda s: s["properties"]["types"]["items"].update(type="integer"), "$.types[]: type"),
        (lambda s: s["properties"]["limit_micro"]["anyOf"].pop(), "integer or null to integer"),
        (lambda s: s["properties"]["limit_micro"]["anyOf"][0].update(maximum=5), "narrowed"),
        (lambda s: s["required"].append("gang"), "the field is now required"),
        (lambda s: s["required"].remove("team"), "the field is now optional"),
        (lambda s: s.update(additionalProperties=True), "additionalProperties changed"),
    ],
)
def test_values_that_a_field_may_have_neither_shrink_nor_grow(
    change: Callable[[Schema], object], says: str
) -> None:
    current = submitted()
    change(current)
    changes = breaking_changes(submitted(), current)
    assert len(changes) == 1
    assert says in changes[0]


def test_words_for_people_may_change() -> None:
    current = submitted()
    current["description"] = "other words"
    current["properties"]["team"]["title"] = "Who"
    assert breaking_changes(submitted(), current) == []


def test_a_kind_of_document_may_neither_come_nor_go() -> None:
    released = schema_of(next(e for e in EVENTS if e.TYPE == "walras.accounts.requested.v1"))
    current = copy.deepcopy(released)
    current["properties"]["document"]["oneOf"].pop()
    assert breaking_changes(released, current)
    assert breaking_changes(current, released)


@pytest.mark.parametrize("model", EVENTS, ids=lambda model: model.TYPE)
@given(data=st.data())
@settings(deadline=None, max_examples=10)
def test_any_edit_of_any_schema_is_noticed_at_any_depth(
    model: type[Event], data: st.DataObject
) -> None:
    """Every field of every event: removed, retyped, narrowed or made required, all are refused."""
    released, current = schema_of(model), schema_of(model)
    assert breaking_changes(released, current) == []
    objects = [s for s in (current, *current.get("$defs", {}).values()) if "properties" in s]
    holder = data.draw(st.sampled_from(objects))
    name = data.draw(st.sampled_from(sorted(holder["properties"])))
    edit = data.draw(st.sampled_from(["remove", "retype", "narrow", "add"]))
    if edit == "narrow":
        edit = "narrow" if "minimum" in holder["properties"][name] else "retype"
    _edit(holder, name, edit)
    assert breaking_changes(released, current)


def _edit(holder: dict[str, Any], name: str, edit: str) -> None:
    match edit:
        case "remove":
            del holder["properties"][name]
            holder["required"] = [n for n in holder.get("required", []) if n != name]
        case "retype":
            holder["properties"][name] = {"type": "number"}
        case "narrow":
            holder["properties"][name]["minimum"] += 1
        case _:
            holder["properties"]["later"] = {"type": "integer", "minimum": 0, "maximum": 1}
            holder["required"] = [*holder.get("required", []), "later"]
