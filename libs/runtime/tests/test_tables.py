"""Tables over compaction and over a change of wiring: the same contents, or a stop with a code."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.runtime.tests.sum_stage import FEEDBACK, TABLE, raw, registry, wired
from walras_contracts.dead_letters import DeadLettered
from walras_runtime import records
from walras_runtime.errors import BarrierFaultError, PartitionStoppedError, StateUnreadableError
from walras_runtime.memory.log import MemoryLog
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.records import POSITION_KEY, Barrier, Output
from walras_runtime.stage import Input

KEYS = 3
"""Barrier keys of these tests: few, so that compaction removes barriers soon."""


@pytest.fixture(autouse=True, scope="module")
def _few_barrier_keys() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BARRIER_KEYS", KEYS)
        yield


Rows = list[tuple[str, int, str, bytes | None]]
rows = st.lists(
    st.tuples(
        st.sampled_from(["table", "feedback"]),
        st.integers(0, 1),
        st.sampled_from("abc"),
        st.none() | st.sampled_from([b"1", b"2", b"3"]),
    ),
    max_size=4,
)


def fill(log: MemoryLog, number: int, changes: Rows, kind: str = "t") -> None:
    log.append([Output(name, key, "", kind, value, p) for name, p, key, value in changes])
    for name, held in log.topics.items():
        if held.barriers == "outside":
            for partition in range(held.partitions):
                log.append_barrier(name, partition, Barrier(number, number * 1_000))


def compact(log: MemoryLog) -> None:
    for name, held in log.topics.items():
        if held.cleanup == "compact":
            log.compact(name)


def said(log: MemoryLog) -> dict[str, bytes | None]:
    return {e.key: e.payload for e in log.read("out", 0, 0) if e.barrier is None}


@given(st.lists(rows, min_size=1, max_size=12), st.sets(st.integers(0, 11)))
def test_compaction_while_all_stand_still_changes_nothing_that_is_said_afterwards(
    steps: list[Rows], compactions: set[int]
) -> None:
    """Barriers go too; a stage that was started again reads on from its position."""
    spec = wired(raw(TABLE), raw(FEEDBACK))
    plain, compacted = MemoryLog(registry()), MemoryLog(registry())
    for number, changes in enumerate(steps):
        for log in (plain, compacted):
            fill(log, number, changes)
        MemoryRunner(spec, plain).advance()
        MemoryRunner(spec, compacted).advance()
        if number in compactions:
            compact(compacted)
    assert said(compacted) == said(plain)
    if len(steps) - 1 in compactions:
        kept = [e.barrier for e in compacted.read("table", 0, 0) if e.barrier is not None]
        last = len(steps) - 1
        assert [b.number for b in kept] == list(range(max(0, last - KEYS + 1), last + 1))


def test_a_table_that_is_wired_later_is_read_from_the_tail_that_compaction_left() -> None:
    log = MemoryLog(registry())
    for number in range(10):
        fill(log, number, [("table", 0, "a", b"%d" % number)])
    MemoryRunner(wired(), log).advance()
    compact(log)
    fill(log, 10, [("table", 1, "b", b"10")])
    MemoryRunner(wired(raw(TABLE)), log).advance()
    assert said(log)["10"] == b'[["table", 0, "a", "9"], ["table", 1, "b", "10"]]'


def test_a_table_whose_tail_begins_behind_the_step_in_hand_stops_it() -> None:
    log = MemoryLog(registry())
    for number in range(10):
        fill(log, number, [("table", 0, "a", b"%d" % number)])
    compact(log)
    with pytest.raises(BarrierFaultError, match=r"table/0 begins with barrier 7; .* step 0"):
        MemoryRunner(wired(raw(TABLE)), log).advance()


def test_a_lagged_table_that_was_not_mirrored_cannot_be_made_up() -> None:
    log = MemoryLog(registry())
    fill(log, 0, [("feedback", 0, "a", b"1")])
    # Read, but not as a table that needs a mirror.
    MemoryRunner(wired(Input("feedback", raw=True)), log).advance()
    with pytest.raises(StateUnreadableError, match="did not mirror feedback"):
        MemoryRunner(wired(raw(FEEDBACK)), log)
    # An input that was never read has nothing that could be missing.
    MemoryRunner(wired(Input("feedback", raw=True), raw(TABLE)), log)


def test_what_is_mirrored_no_longer_is_removed_with_the_next_step() -> None:
    log = MemoryLog(registry())
    fill(log, 0, [("feedback", 0, "a", b"1")])
    fill(log, 1, [])
    MemoryRunner(wired(raw(FEEDBACK)), log).advance()
    keys = [e.key for e in log.read("state.sum", 0, 0)]
    assert "~table/feedback/0/a" in keys
    fill(log, 2, [])
    runner = MemoryRunner(wired(raw(TABLE)), log)
    runner.advance()
    latest = {e.key: e.payload for e in log.read("state.sum", 0, 0)}
    assert latest.pop(POSITION_KEY) is not None
    assert latest == {"~table/feedback/0/a": None}
    assert said(log)["2"] == b"[]"


LETTER = DeadLettered(
    service="x", topic="t", partition=0, offset=0, code="c", reason="", value_base64=""
).payload()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("~table/feedback/0/a", b""),
        ("~table/feedback/0/a", b"{}"),
        ("~table/feedback/0/a", b'{"type":"t"}'),
        ("~table/feedback/zero/a", b'{"type":"t","value":1}'),
        ("~table/feedback", b'{"type":"t","value":1}'),
        ("~table/feedback/0/a", b'{"type":"walras.dead_lettered.v1","value":{}}'),
        ("~table/feedback/0/a", b'{"type":"walras.job.queued.v1","value":{}}'),
    ],
)
def test_a_damaged_mirror_is_an_error_with_a_code(key: str, value: bytes) -> None:
    log = MemoryLog(registry())
    log.append([Output("state.sum", key, "", "walras.state.v1", value, 0)])
    with pytest.raises(StateUnreadableError, match=r"state\.sum") as stopped:
        MemoryRunner(wired(FEEDBACK), log)
    assert stopped.value.code == "state_unreadable"


def test_a_mirrored_record_of_a_newer_build_stops_the_stage() -> None:
    log = MemoryLog(registry())
    value = b'{"type":"walras.dead_lettered.v9","value":%s}' % LETTER
    log.append([Output("state.sum", "~table/feedback/0/a", "", "walras.state.v1", value, 0)])
    with pytest.raises(PartitionStoppedError, match=r"walras\.dead_lettered\.v9"):
        MemoryRunner(wired(FEEDBACK), log)
