"""What becomes of a record that is not an event of its topic: a letter, or a stop."""

import base64
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.runtime.tests.echo_service import registry, spec
from walras_contracts.dead_letters import DeadLettered
from walras_contracts.examples import arbitrary_event
from walras_contracts.registry import BY_TYPE, EVENTS
from walras_runtime.decoding import decode
from walras_runtime.errors import PartitionStoppedError
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import BARRIER_TYPE, Barrier, Output, Record
from walras_runtime.stage import Input

QUEUE = Input("queue")
JOB = "walras.job.queued.v1"
FOREIGN = (
    "",
    BARRIER_TYPE,
    "com.example.thing",
    "walras.job.exploded.v1",
    "walras.job.queued.vv",
    "walras.supply.published.v1",
    "walras.supply.published.v2",
)


def record(kind: str, value: bytes | None, offset: int = 7) -> Record:
    return Record("queue", 2, offset, "k", kind, value)


def payload_of(kind: str) -> bytes:
    model = BY_TYPE[kind]
    return arbitrary_event(model, Random(1)).payload()


@pytest.mark.parametrize("value", [None, b"", b"{}", payload_of("walras.supply.published.v1")])
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_record_of_a_foreign_type_is_a_letter_with_its_coordinates(
    kind: str, value: bytes | None
) -> None:
    found, output = decode("clearing", QUEUE, record(kind, value))
    assert found is None
    assert output is not None
    assert output.payload is not None
    letter = DeadLettered.model_validate_json(output.payload)
    assert (letter.service, letter.topic, letter.partition, letter.offset) == (
        *("clearing", "queue"),
        *(2, 7),
    )
    assert letter.code == "undecodable"
    assert base64.b64decode(letter.value_base64) == (value or b"")


@pytest.mark.parametrize("value", [None, b"{}"])
def test_another_version_of_an_event_of_the_topic_stops_with_its_coordinates(
    value: bytes | None,
) -> None:
    with pytest.raises(PartitionStoppedError, match=r"queue/2@7: .*walras.job.queued.v2"):
        decode("clearing", QUEUE, record("walras.job.queued.v2", value))


@given(st.text(), st.none() | st.binary())
def test_whatever_else_a_type_says_the_record_is_handed_over_or_a_letter(
    kind: str, value: bytes | None
) -> None:
    found, letter = decode("clearing", QUEUE, record(kind, value))
    assert (found is None) != (letter is None)


def test_events_and_tombstones_of_the_topic_are_handed_over() -> None:
    found, letter = decode("clearing", QUEUE, record(JOB, payload_of(JOB)))
    assert letter is None
    assert found is not None
    assert found.event is not None
    assert found.event.TYPE == JOB
    assert decode("clearing", QUEUE, record(JOB, None)) == (record(JOB, None), None)


def test_the_types_of_a_topic_are_those_that_are_given() -> None:
    other = record(JOB, payload_of(JOB))
    assert decode("x", QUEUE, other, [DeadLettered.TYPE])[0] is None
    for event in EVENTS:
        source = Input(event.TOPIC)
        assert decode("x", source, Record(event.TOPIC, 0, 0, "k", event.TYPE, None))[0] is not None


def test_the_step_goes_on_without_what_was_no_event_of_the_topic() -> None:
    log = MemoryLog(registry())
    good = DeadLettered(
        service="x", topic="t", partition=0, offset=0, code="c", reason="", value_base64=""
    ).payload()
    rows = [
        (DeadLettered.TYPE, good),
        *((kind, good) for kind in FOREIGN),
        (DeadLettered.TYPE, good),
    ]
    log.append([Output("in", "k", "", kind, value, 0) for kind, value in rows])
    for partition in (0, 1):
        log.append_barrier("in", partition, Barrier(0, 0))
    MemoryRunner(spec(spread=False, raw=False), log).advance()
    echoed = [e for e in log.read("out", 0, 0) if e.barrier is None]
    assert len(echoed) == 2
    letters = [e for p in (0, 1) for e in log.read("dead_letter", p, 0)]
    assert {e.key for e in letters} == {f"in/0/{n}" for n in range(1, 1 + len(FOREIGN))}
