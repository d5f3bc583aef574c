"""Properties of both decoders over all event types."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walras_contracts.edge import decode_edge
from walras_contracts.event import Event
from walras_contracts.examples import arbitrary_document, arbitrary_event
from walras_contracts.json_schema import schema_of
from walras_contracts.registry import (
    BY_TYPE,
    EVENTS,
    UndecodableError,
    UnknownVersionError,
    decode_inner,
    types_on,
)
from walras_contracts.rejections import Rejection, RejectionCode

ACCEPTED = frozenset(BY_TYPE)
MODELS = pytest.mark.parametrize("model", EVENTS, ids=lambda model: model.TYPE)


class SeededRandom(Random):
    """A source of randomness that prints its seed; far faster than one that hypothesis shrinks."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start

    def __repr__(self) -> str:
        return f"SeededRandom({self.start})"


RANDOMS = st.builds(SeededRandom, st.integers(0, 2**32))
SOME = settings(deadline=None, max_examples=25)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text(max_size=20)
    | st.sampled_from(["pool", "market", "platform", "running", "a100", "", "~"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=8) | st.sampled_from(["kind", "pool"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


def edge(model: type[Event], payload: bytes | None) -> Event | Rejection:
    answer = decode_edge(model.TYPE, "id", "test", payload, ACCEPTED)
    assert isinstance(answer, (model, Rejection))
    if isinstance(answer, Rejection):
        assert 0 < len(answer.reason) <= 500
        assert len(answer.path) <= 500
        (answer.path + answer.reason).encode()
    return answer


def inner(model: type[Event], payload: bytes) -> None:
    """Anything but the event or the one foreseen error fails the test."""
    try:
        answer: Event | str = decode_inner(model.TYPE, payload)
    except UndecodableError as error:
        answer = str(error)
    assert isinstance(answer, model) or len(str(answer)) < 1_000


@MODELS
@given(random=RANDOMS)
@SOME
def test_payloads_come_back_equal_through_both_decoders(model: type[Event], random: Random) -> None:
    event = arbitrary_event(model, random)
    payload = event.payload()
    assert edge(model, payload) == event
    assert decode_inner(model.TYPE, payload) == event
    assert edge(model, payload).payload() == payload  # type: ignore[union-attr]


@MODELS
@given(random=RANDOMS)
@SOME
def test_equal_events_give_equal_bytes_whatever_the_order_of_keys_was(
    model: type[Event], random: Random
) -> None:
    document = arbitrary_document(model, random)
    shuffled = json.dumps(_shuffled(document, random), indent=random.randrange(3))
    first, second = edge(model, json.dumps(document).encode()), edge(model, shuffled.encode())
    assert isinstance(first, model)
    assert first == second
    assert first.payload() == second.payload()
    assert first.record_key() == second.record_key()
    assert first.partition_key() == second.partition_key()


def _shuffled(value: Any, random: Random) -> Any:
    if isinstance(value, list):
        return [_shuffled(item, random) for item in value]
    if isinstance(value, dict):
        names = list(value)
        random.shuffle(names)
        return {name: _shuffled(value[name], random) for name in names}
    return value


@given(
    event_type=st.none() | st.text() | st.sampled_from(sorted(ACCEPTED)),
    event_id=st.none() | st.text(st.characters(codec=None)),
    source=st.none() | st.text(st.characters(codec=None)),
    payload=st.none() | st.binary() | values.map(lambda v: json.dumps(v).encode()),
)
@settings(deadline=None, max_examples=600)
def test_nothing_makes_the_edge_raise(
    event_type: str | None, event_id: str | None, source: str | None, payload: bytes | None
) -> None:
    answer = decode_edge(event_type, event_id, source, payload, ACCEPTED)
    if isinstance(answer, Rejection):
        assert 0 < len(answer.reason) <= 500
    else:
        assert event_id
        assert source
        assert event_type == answer.TYPE


@MODELS
@given(data=st.data(), random=RANDOMS)
@SOME
def test_a_mutated_event_is_refused_or_read_as_the_tolerant_decoder_reads_it(
    model: type[Event], data: st.DataObject, random: Random
) -> None:
    document = arbitrary_document(model, random)
    for _ in range(data.draw(st.integers(1, 3))):
        _mutate(document, data, random)
    payload = json.dumps(document).encode()
    answer = edge(model, payload)
    if isinstance(answer, Rejection):
        return
    assert decode_inner(model.TYPE, payload) == answer
    # Every value given is the value read: nothing was converted, dropped or replaced.
    assert _contains(json.loads(answer.payload()), document)


def _mutate(document: dict[str, Any], data: st.DataObject, random: Random) -> None:
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in list(items):
            places.append((value, key))
            if isinstance(child, (dict, list)):
                walk(child)

    walk(document)
    if not places:
        document["x"] = 1
        return
    holder, key = places[random.randrange(len(places))]
    match data.draw(st.sampled_from(["replace", "remove", "add", "nudge"])):
        case "replace":
            holder[key] = data.draw(values)
        case "remove":
            del holder[key]
        case "add":
            (holder if isinstance(holder, dict) else document)[data.draw(st.text())] = 1
        case _:
            if isinstance(holder[key], int):
                holder[key] += data.draw(st.sampled_from([-1, 1, 2**63, -(2**63), 0.5]))


def _contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and _contains(whole[name], value) for name, value in part.items()
        )
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(_contains, whole, part))
    return type(whole) is type(part) and bool(whole == part)


def test_the_comparison_notices_a_conversion() -> None:
    """Canary of the property above."""
    assert not _contains({"a": [{"b": 1}]}, {"a": [{"b": True}]})
    assert not _contains({"a": 1}, {"a": 1.0})
    assert not _contains({}, {"a": 1})


@MODELS
@given(random=RANDOMS, flips=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4))
@SOME
def test_damaged_bytes_never_make_a_decoder_raise_anything_unforeseen(
    model: type[Event], random: Random, flips: list[tuple[int, int]]
) -> None:
    payload = bytearray(arbitrary_event(model, random).payload())
    for position, byte in flips:
        payload[position % len(payload)] = byte
    edge(model, bytes(payload))
    edge(model, bytes(payload[: len(payload) // 2]))
    inner(model, bytes(payload))


@MODELS
@given(random=RANDOMS)
@SOME
def test_unknown_fields_are_ignored_inside_and_refused_at_the_edge(
    model: type[Event], random: Random
) -> None:
    event = arbitrary_event(model, random)
    document = json.loads(event.payload())
    count = _sprinkle(document)
    payload = json.dumps(document).encode()
    assert decode_inner(model.TYPE, payload) == event
    answer = edge(model, payload)
    assert isinstance(answer, Rejection)
    assert answer.code is RejectionCode.UNKNOWN_FIELD
    assert count >= 1


def _sprinkle(value: Any) -> int:
    """Add an unknown field to every object, at any depth; return to how many."""
    count = 0
    if isinstance(value, dict):
        count = 1 + sum(_sprinkle(child) for child in value.values())
        value["zz_later"] = {"deep": [1.5]}
    elif isinstance(value, list):
        count = sum(_sprinkle(child) for child in value)
    return count


@MODELS
@given(version=st.integers(0, 10**30), payload=st.binary())
@settings(deadline=None, max_examples=25)
def test_another_version_of_an_event_of_the_topic_stops_the_reader_inside(
    model: type[Event], version: int, payload: bytes
) -> None:
    family = model.TYPE.rpartition(".")[0]
    if f"{family}.v{version}" == model.TYPE:
        version += 1
    with pytest.raises(UnknownVersionError):
        decode_inner(f"{family}.v{version}", payload)
    with pytest.raises(UnknownVersionError):
        decode_inner(f"{family}.v{version}", payload, types_on(model.TOPIC))


@given(
    name=st.text()
    | st.text().map(lambda text: f"{text}.v0")
    | st.sampled_from(["", "walras.barrier.v1", "walras.job.queued.vv", "walras.job.queued.v"]),
    payload=st.binary(),
)
@settings(deadline=None)
def test_what_is_no_event_at_all_is_undecodable_and_stops_nobody(name: str, payload: bytes) -> None:
    if name not in BY_TYPE:
        with pytest.raises(UndecodableError):
            decode_inner(name, payload)


@MODELS
@given(random=RANDOMS)
@SOME
def test_an_event_on_the_topic_of_another_is_undecodable_in_any_version(
    model: type[Event], random: Random
) -> None:
    other = random.choice([event for event in EVENTS if event.TOPIC != model.TOPIC])
    payload = arbitrary_event(model, random).payload()
    for event_type in (model.TYPE, f"{model.TYPE}7"):
        with pytest.raises(UndecodableError, match="does not belong on this topic"):
            decode_inner(event_type, payload, types_on(other.TOPIC))
    assert decode_inner(model.TYPE, payload, types_on(model.TOPIC)).TYPE == model.TYPE


@given(payload=st.binary() | values.map(lambda v: json.dumps(v).encode()), data=st.data())
@settings(deadline=None, max_examples=300)
def test_inside_only_the_two_named_errors_are_raised(payload: bytes, data: st.DataObject) -> None:
    inner(data.draw(st.sampled_from(EVENTS)), payload)


@MODELS
def test_every_integer_has_bounds_within_int64_and_no_field_is_a_float(model: type[Event]) -> None:
    """An integer without bounds would let the edge's stand-in for endless integers pass."""
    integers = 0

    def walk(node: Any) -> None:
        nonlocal integers
        if isinstance(node, dict):
            assert node.get("type") != "number"
            if node.get("type") == "integer":
                integers += 1
                assert -(2**63) <= node["minimum"] <= node["maximum"] < 2**63
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    walk(schema_of(model))
    without = {"walras.job.cancelled.v1", "walras.invoice.requested.v1"}
    assert integers or model.TYPE in without


def test_only_fields_of_the_event_itself_choose_between_kinds_of_objects() -> None:
    """The edge takes pydantic's tag out of error locations at the top level only."""
    for model in EVENTS:
        schema = schema_of(model)
        for definition in schema.get("$defs", {}).values():
            assert "oneOf" not in json.dumps(definition)
