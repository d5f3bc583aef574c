"""Records on the wire: what is written is read back; what is strange stays bytes."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.runtime.tests.echo_service import registry, spec
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.kafka.claims import Claim, failures_value
from walras_runtime.kafka.step_rows import step_rows
from walras_runtime.kafka.wire import (
    BarrierMark,
    barrier_headers,
    barrier_value,
    event_headers,
    parse_message,
)
from walras_runtime.position import Position
from walras_runtime.records import BARRIER_TYPE, POSITION_KEY, Barrier, Output, Record, StateChange


@dataclass(frozen=True)
class Message:
    """What a consumer gives."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 1
    offset: int = 7
    timestamp: int = 123


def headers(items: list[tuple[str, bytes]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(items)


@given(st.integers(0, 2**40), st.integers(0, 2**50), st.integers(0, 2**31))
def test_a_barrier_reads_back_as_written(number: int, time_ms: int, epoch: int) -> None:
    barrier = Barrier(number, time_ms)
    trace = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    written = headers(barrier_headers(epoch, 5, trace))
    message = Message(barrier.key().encode(), barrier_value(barrier), written)
    assert parse_message(message, "in") == BarrierMark(barrier, epoch, 123, 7, trace)


def test_a_barrier_without_trace_has_no_trace_header() -> None:
    assert [name for name, _ in barrier_headers(1)] == ["ce_type", "walras_epoch"]
    message = Message(b"~barrier/3", barrier_value(Barrier(3, 4)), headers(barrier_headers(1)))
    mark = parse_message(message, "in")
    assert isinstance(mark, BarrierMark)
    assert mark.traceparent is None


@given(st.text(max_size=20), st.text(max_size=20), st.none() | st.binary(max_size=20))
def test_a_data_record_reads_back_as_written(event_id: str, key: str, value: bytes | None) -> None:
    written = headers(event_headers(event_id, b"walras/x/0", "t.v1"))
    record = parse_message(Message(key.encode(), value, written), "in")
    assert record == Record("in", 1, 7, key, "t.v1", value, None, event_id, "walras/x/0")


names = st.sampled_from(["ce_type", "ce_id", "ce_source", "walras_epoch", "traceparent", "x"])
strange = st.none() | st.binary(max_size=12) | st.sampled_from([BARRIER_TYPE.encode(), b"1"])
values = strange | st.sampled_from(
    [b"{}", b"[]", b"[" * 100_000, b'{"barrier":1}', b'{"barrier":"x","market_time_ms":0}']
)


@given(
    st.none() | st.binary(max_size=8) | st.just(b"~barrier/1"),
    values,
    st.lists(st.tuples(names, strange), max_size=6),
)
def test_nothing_from_outside_breaks_the_reader(
    key: bytes | None, value: bytes | None, pairs: list[tuple[str, bytes | None]]
) -> None:
    item = parse_message(Message(key, value, tuple(pairs)), "in")
    assert isinstance(item, Record)
    assert item.value == value


def rows_of(*outputs: Output, spread: bool) -> dict[tuple[str, int], list[object]]:
    rows = step_rows(
        spec(spread=spread),
        1 if spread else 0,
        registry(),
        Barrier(4, 9),
        outputs=outputs,
        state=[StateChange("count", b"1")],
        position=Position(4, 9, {("in", 0): 3}, {("in", 0): 4}),
        epoch=2,
        previous_commit_ms=None,
        traceparent=None,
    )
    return {where: [key for key, _, _ in held] for where, held in rows.items()}


def test_a_spread_stage_writes_its_barrier_only_into_its_own_partition() -> None:
    rows = rows_of(Output("out", "k", "k", "t", b"", 1), spread=True)
    assert rows == {
        ("walras.out.v1", 1): [b"k", b"~barrier/4"],
        ("walras.state.echo.v1", 1): [b"count", POSITION_KEY.encode()],
    }


def test_a_single_leader_writes_its_barrier_into_all_partitions_behind_its_records() -> None:
    rows = rows_of(Output("out", "k", "k", "t", b"", 1), spread=False)
    assert rows["walras.out.v1", 1] == [b"k", b"~barrier/4"]
    assert rows["walras.out.v1", 0] == [b"~barrier/4"]


def test_a_spread_stage_may_not_write_into_the_partition_of_another() -> None:
    with pytest.raises(InvariantBrokenError, match="echo/1 wrote 'k' to out/0"):
        rows_of(Output("out", "k", "k", "t", b"", 0), spread=True)
    # Topics without barriers have no order to break.
    assert rows_of(Output("dead_letter", "k", "k", "t", b"", 0), spread=True)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["in", "a.b"]), st.integers(0, 9)),
        st.tuples(st.integers(0), st.integers(-1)),
    )
)
def test_a_position_reads_back_as_written(held: dict[tuple[str, int], tuple[int, int]]) -> None:
    position = Position(
        3, 4, {k: v[0] for k, v in held.items()}, {k: v[1] for k, v in held.items()}
    )
    assert Position.parse(position.payload()) == position


def test_failures_are_counted_by_subject_and_start_anew_on_another_barrier() -> None:
    claim = Claim("x", 1, 5, {"a": 2})
    assert b'"counts": {"a": 3}' in failures_value(claim, 5, "a", "boom")
    assert b'"counts": {"a": 2, "b": 1}' in failures_value(claim, 5, "b", "boom")
    assert b'"counts": {"a": 1}' in failures_value(claim, 6, "a", "boom")
