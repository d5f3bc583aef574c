"""The loop in memory: a crash between any two steps changes nothing on the log."""

from hypothesis import given
from hypothesis import strategies as st

from libs.runtime.tests.echo_service import EchoStage, registry, spec
from walras_contracts.dead_letters import DeadLettered
from walras_contracts.topics import Topic
from walras_runtime.memory.log import Entry, MemoryLog
from walras_runtime.memory.runner import MemoryRunner, state_digest_input
from walras_runtime.records import (
    POSITION_KEY,
    Barrier,
    Output,
    Record,
    StateChange,
    Step,
    StepResult,
)
from walras_runtime.stage import Input, StageSpec

Contents = list[list[tuple[int, bytes]]]
"""For each step the partitions and values of its records."""

contents = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=3)), max_size=4), max_size=8
)


def topics() -> dict[str, Topic]:
    return registry()


def fill(log: MemoryLog, content: Contents, *, event_type: str = "t.v1", first: int = 0) -> None:
    for number, rows in enumerate(content, start=first):
        log.append([Output("in", "k", "", event_type, value, p) for p, value in rows])
        for partition in log.partitions("in"):
            log.append_barrier("in", partition, Barrier(number, number * 1_000))


def run_to_end(echo: StageSpec, log: MemoryLog, partition: int = 0) -> MemoryRunner:
    runner = MemoryRunner(echo, log, partition)
    runner.advance()
    return runner


@given(contents, st.lists(st.integers(0, 4), max_size=12))
def test_crashes_after_any_number_of_steps_leave_the_same_log(
    content: Contents, lives: list[int]
) -> None:
    plain, crashed = MemoryLog(topics()), MemoryLog(topics())
    fill(plain, content)
    fill(crashed, content)
    run_to_end(spec(spread=False), plain)
    for steps in lives:
        MemoryRunner(spec(spread=False), crashed).advance(steps)
    run_to_end(spec(spread=False), crashed)
    assert crashed.entries == plain.entries


@given(contents, st.lists(st.integers(0, 4), max_size=6))
def test_spread_stages_run_in_any_order_and_leave_the_same_log(
    content: Contents, turns: list[int]
) -> None:
    plain, mixed = MemoryLog(topics()), MemoryLog(topics())
    fill(plain, content)
    fill(mixed, content)
    for partition in (0, 1):
        run_to_end(spec(spread=True), plain, partition)
    runners = [MemoryRunner(spec(spread=True), mixed, partition) for partition in (0, 1)]
    for turn, steps in enumerate(turns):
        runners[turn % 2].advance(steps)
    for runner in reversed(runners):
        runner.advance()
    assert mixed.entries == plain.entries


@given(contents, st.integers(0, 8))
def test_a_compacted_state_topic_restores_the_same_state(content: Contents, steps: int) -> None:
    log = MemoryLog(topics())
    fill(log, content)
    MemoryRunner(spec(spread=False), log).advance(steps)
    before = MemoryRunner(spec(spread=False), log)
    digest = state_digest_input(log, "echo")
    log.compact("state.echo")
    assert len(log.read("state.echo", 0, 0)) == (2 if steps and content else 0)
    after = MemoryRunner(spec(spread=False), log)
    assert after.position == before.position
    assert isinstance(after.stage, EchoStage)
    assert isinstance(before.stage, EchoStage)
    assert after.stage.count == before.stage.count
    assert state_digest_input(log, "echo") == digest


def test_compaction_keeps_the_latest_entry_of_each_key_and_all_offsets() -> None:
    log = MemoryLog(topics())
    log.append([Output("in", key, "", "t", value, 0) for key, value in [("a", b"1"), ("b", b"1")]])
    log.append([Output("in", "a", "", "t", b"2", 0)])
    log.compact("in")
    assert [(e.offset, e.key, e.payload) for e in log.read("in", 0, 0)] == [
        (1, "b", b"1"),
        (2, "a", b"2"),
    ]
    log.append([Output("in", "c", "", "t", b"", 0)])
    assert log.read("in", 0, 2)[-1].offset == 3


class TableStage:
    """Sums a table input; keeps nothing in its own state."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.table: dict[str, bytes] = {}

    def fold(self, record: Record) -> None:
        if record.value is None:
            self.table.pop(record.key, None)
        else:
            self.table[record.key] = record.value

    def load(self, key: str, value: bytes) -> None:
        raise AssertionError(f"no own state, but {key}={value!r}")

    def step(self, step: Step) -> StepResult:
        assert all(record.value is not None for record in step.records["in"])
        body = b",".join(v for _, v in sorted(self.table.items()))
        return StepResult([Output("out", "k", "", "t", body, 0)], [StateChange("gone", None)])


def test_table_inputs_are_folded_again_up_to_the_position_and_no_further() -> None:
    tables = StageSpec("echo", (Input("in", raw=True, table=True),), ("out",), TableStage)
    log = MemoryLog(topics())
    fill(log, [[(0, b"one")], [(0, b"two")], [(0, b"three")]])
    MemoryRunner(tables, log).advance(2)
    again = MemoryRunner(tables, log)
    assert isinstance(again.stage, TableStage)
    assert again.stage.table == {"k": b"two"}
    again.advance()
    bodies = [e.payload for e in log.read("out", 0, 0) if e.barrier is None]
    assert bodies == [b"one", b"two", b"three"]


def letters(log: MemoryLog) -> list[Entry]:
    return [e for p in log.partitions("dead_letter") for e in log.read("dead_letter", p, 0)]


def test_a_dead_letter_is_written_once_and_in_the_step_of_its_record() -> None:
    log = MemoryLog(topics())
    fill(log, [[], [(0, b"\x00\xff\x7b")], []], event_type=DeadLettered.TYPE)
    echo = spec(spread=False, raw=False)
    MemoryRunner(echo, log).advance(1)  # has read the poison, has not decided its step
    assert letters(log) == []
    MemoryRunner(echo, log).advance(1)
    assert [e.key for e in letters(log)] == ["in/0/1"]
    run_to_end(echo, log)
    assert len(letters(log)) == 1


def test_the_position_is_a_record_of_the_state_topic() -> None:
    log = MemoryLog(topics())
    fill(log, [[(1, b"x")]])
    run_to_end(spec(spread=False), log)
    assert [e.key for e in log.read("state.echo", 0, 0)] == ["count", POSITION_KEY]
