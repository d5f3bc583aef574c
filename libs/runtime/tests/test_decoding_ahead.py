"""Decoding ahead changes when the work is done, and nothing that comes of it."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_contracts.examples import arbitrary_event
from walras_contracts.registry import BY_TYPE
from walras_contracts.topics import load_topics
from walras_runtime.align import INTERVALS_AHEAD, Aligner, Interval
from walras_runtime.decoding import decode_ahead, decode_step
from walras_runtime.errors import PartitionStoppedError
from walras_runtime.records import Barrier, Output, Record
from walras_runtime.stage import Input, Stage, StageSpec

TOPICS = load_topics()
QUEUED, UNKNOWN = "walras.job.queued.v1", "walras.job.queued.v9"
ACCEPTED = TOPICS["queue"].events
PARTITIONS = {"queue": (0, 1), "demand": (0,)}


def no_stage(_: int) -> Stage:
    raise NotImplementedError


SPEC = StageSpec("clearing", (Input("queue"), Input("demand", raw=True)), (), no_stage)


def payload(seed: int) -> bytes:
    return arbitrary_event(BY_TYPE[QUEUED], Random(seed)).payload()


bodies = st.one_of(
    st.integers(0, 20).map(lambda seed: (QUEUED, payload(seed))),
    st.sampled_from([(QUEUED, None), (QUEUED, b"{}"), (QUEUED, b"\xff"), ("", b"x"), ("", None)]),
)


def aligner_of(logs: dict[tuple[str, int], list[list[tuple[str, bytes | None]]]]) -> Aligner:
    """Return an aligner that holds for each partition the records of each step."""
    aligner = Aligner(SPEC.inputs, PARTITIONS, {}, {})
    for (topic, partition), steps in logs.items():
        offset = 0
        for number, step in enumerate(steps):
            for kind, value in step:
                aligner.push_record(Record(topic, partition, offset, f"k{offset}", kind, value))
                offset += 1
            aligner.push_barrier(topic, partition, offset, Barrier(number, number))
            offset += 1
    return aligner


def decide(aligner: Aligner, steps: int) -> Iterator[tuple[dict[str, list[Record]], list[Output]]]:
    for number in range(steps):
        yield decode_step(SPEC, aligner.take(number), TOPICS)


def look_ahead(aligner: Aligner, most: int) -> int:
    """Decode ahead as the loop does; return how many records were looked at."""
    looked_at = 0
    for source, interval in aligner.not_looked_at():
        if source.raw:
            interval.looked_at = len(interval.records)
        else:
            looked_at += decode_ahead(interval, TOPICS[source.topic].events, most)
    return looked_at


@given(
    st.fixed_dictionaries(
        {
            (topic, p): st.lists(st.lists(bodies, max_size=4), min_size=3, max_size=3)
            for topic, partitions in PARTITIONS.items()
            for p in partitions
        }
    ),
    st.lists(st.integers(1, 5), max_size=6),
)
def test_steps_are_the_same_however_much_of_them_was_decoded_ahead(
    logs: dict[tuple[str, int], list[list[tuple[str, bytes | None]]]], looks: list[int]
) -> None:
    ahead = aligner_of(logs)
    for most in looks:
        look_ahead(ahead, most)
    assert list(decide(ahead, 3)) == list(decide(aligner_of(logs), 3))


def test_everything_that_decodes_has_its_event_after_looking_ahead() -> None:
    good = (QUEUED, payload(1))
    aligner = aligner_of({("queue", 0): [[good, (QUEUED, b"{}"), good]], ("queue", 1): [[]]})
    assert look_ahead(aligner, 10) == 3
    assert look_ahead(aligner, 10) == 0
    aligner.push_barrier("demand", 0, 0, Barrier(0, 0))
    events = [record.event is not None for record in aligner.take(0).records["queue"]]
    assert events == [True, False, True]


def test_an_unknown_version_stops_at_its_own_step_and_not_before() -> None:
    steps: list[list[tuple[str, bytes | None]]] = [[(QUEUED, payload(1))], [(UNKNOWN, b"{}")]]
    aligner = aligner_of({("queue", 0): steps, ("queue", 1): [[], []], ("demand", 0): [[], []]})
    assert look_ahead(aligner, 10) == 2
    decided = decide(aligner, 2)
    assert len(next(decided)[0]["queue"]) == 1
    with pytest.raises(PartitionStoppedError):
        next(decided)


def test_what_a_stage_reads_raw_is_not_decoded() -> None:
    aligner = aligner_of({("demand", 0): [[(QUEUED, payload(1))]]})
    assert look_ahead(aligner, 10) == 0
    for partition in PARTITIONS["queue"]:
        aligner.push_barrier("queue", partition, 0, Barrier(0, 0))
    assert aligner.take(0).records["demand"][0].event is None


def test_a_stage_that_catches_up_holds_only_the_next_intervals_decoded() -> None:
    good = (QUEUED, payload(1))
    aligner = aligner_of({("queue", 0): [[good]] * 50})
    assert look_ahead(aligner, 10) == INTERVALS_AHEAD
    assert look_ahead(aligner, 10) == 0


def test_a_look_goes_on_where_the_last_one_ended() -> None:
    interval = Interval([Record("queue", 0, n, "k", QUEUED, payload(n)) for n in range(5)])
    assert [decode_ahead(interval, ACCEPTED, 2) for _ in range(4)] == [2, 2, 1, 0]
    assert all(record.event is not None for record in interval.records)
