"""Records on the wire: what is written is read back; what is strange stays bytes."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.runtime.tests.echo_service import registry, spec
from walras_contracts.quantities import MARKET_TIME_MS_MAX
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.kafka.claims import Claim, failures_value
from walras_runtime.kafka.step_rows import barrier_row, step_rows
from walras_runtime.kafka.wire import (
    BarrierMark,
    barrier_headers,
    barrier_value,
    event_headers,
    parse_message,
)
from walras_runtime.position import Position
from walras_runtime.records import (
    BARRIER_KEYS,
    BARRIER_TYPE,
    POSITION_KEY,
    Barrier,
    Output,
    Record,
    StateChange,
)


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


numbers = st.integers(0, 2**53 - 1)


@given(numbers, st.integers(0, MARKET_TIME_MS_MAX), numbers, st.booleans())
def test_a_barrier_reads_back_as_written(
    number: int, time_ms: int, epoch: int, cyclic: bool
) -> None:
    barrier = Barrier(number, time_ms)
    trace = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    written = headers(barrier_headers(epoch, 5, trace))
    message = Message(barrier.key(cyclic=cyclic).encode(), barrier_value(barrier), written)
    assert parse_message(message, "in") == BarrierMark(barrier, epoch, 123, 7, trace)


@given(numbers)
def test_the_cyclic_keys_of_as_many_barriers_in_a_row_are_all_different(first: int) -> None:
    keys = {Barrier(first + n, 0).key(cyclic=True) for n in range(BARRIER_KEYS)}
    assert len(keys) == BARRIER_KEYS
    assert Barrier(first + BARRIER_KEYS, 0).key(cyclic=True) in keys


NOT_NUMBERS = (
    "true", "false", "null", "-1", "1.0", "1e3", "1e999", "Infinity", "-Infinity", "NaN", '"3"',
    "[3]", "{}", str(2**53), "9" * 5_000,
)  # fmt: skip


@pytest.mark.parametrize("field", ["barrier", "market_time_ms"])
@pytest.mark.parametrize("number", NOT_NUMBERS)
def test_what_is_not_a_number_of_a_barrier_is_a_record(field: str, number: str) -> None:
    fields = {"barrier": "1", "market_time_ms": "5", field: number}
    value = "{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}"
    marks = headers(barrier_headers(1))
    item = parse_message(Message(b"~barrier/1", value.encode(), marks), "in")
    assert isinstance(item, Record)
    assert item.type == BARRIER_TYPE


@pytest.mark.parametrize(
    "epoch", [None, b"", b"-1", b"+1", b" 1", b"1_0", b"1.0", b"inf", b"9" * 17, b"\xd9\xa1"]
)
def test_a_barrier_without_an_epoch_is_a_record(epoch: bytes | None) -> None:
    marks = (("ce_type", BARRIER_TYPE.encode()), ("walras_epoch", epoch))
    value = barrier_value(Barrier(1, 5))
    assert isinstance(parse_message(Message(b"~barrier/1", value, marks), "in"), Record)


@given(numbers, numbers)
def test_a_barrier_under_the_key_of_another_is_a_record(number: int, other: int) -> None:
    right = {Barrier(number, 5).key(cyclic=cyclic) for cyclic in (False, True)}
    key = f"~barrier/{other}"
    value = barrier_value(Barrier(number, 5))
    item = parse_message(Message(key.encode(), value, headers(barrier_headers(1))), "in")
    assert isinstance(item, BarrierMark) == (key in right)


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
    [
        *(b"{}", b"[]", b"[" * 100_000, b'{"barrier":1}', b'{"barrier":"x","market_time_ms":0}'),
        *(b'{"barrier":1e999,"market_time_ms":0}', b'{"barrier":1,"market_time_ms":Infinity}'),
        *(b'{"barrier":true,"market_time_ms":0}', b'{"barrier":2,"market_time_ms":0}'),
    ]
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


def test_barriers_have_keys_of_their_own_where_all_records_are_kept_and_cyclic_ones_elsewhere() -> (
    None
):
    topics = registry()
    compacted = topics["out"].model_copy(update={"cleanup": "compact"})
    late = Barrier(3 * BARRIER_KEYS + 4, 9)
    assert barrier_row(late, topics["out"], [])[0] == b"~barrier/12292"
    assert barrier_row(late, compacted, [])[0] == b"~barrier/4"


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
    ),
    st.integers(0),
    st.none() | st.lists(st.sampled_from(["in", "a.b"])).map(tuple),
)
def test_a_position_reads_back_as_written(
    held: dict[tuple[str, int], tuple[int, int]], epoch: int, mirrored: tuple[str, ...] | None
) -> None:
    offsets, delivered = {k: v[0] for k, v in held.items()}, {k: v[1] for k, v in held.items()}
    position = Position(3, 4, offsets, delivered, epoch, mirrored)
    assert Position.parse(position.payload()) == position


def test_a_position_of_a_build_that_kept_less_is_read() -> None:
    old = b'{"step":3,"market_time_ms":4,"inputs":{"in/0":[7,3]}}'
    assert Position.parse(old) == Position(3, 4, {("in", 0): 7}, {("in", 0): 3}, 0, None)


def test_failures_are_counted_by_subject_and_start_anew_on_another_barrier() -> None:
    claim = Claim("x", 1, 5, {"a": 2})
    assert b'"counts": {"a": 3}' in failures_value(claim, 5, "a", "boom")
    assert b'"counts": {"a": 2, "b": 1}' in failures_value(claim, 5, "b", "boom")
    assert b'"counts": {"a": 1}' in failures_value(claim, 6, "a", "boom")
