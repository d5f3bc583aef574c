"""Records of the own state come back as they were written; leases that come late are awaited."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_contracts.drains import (
    DrainCommand,
    NodeDrainState,
    SessionState,
    VacateReason,
    VacateRequested,
)
from walras_contracts.registry import decode_inner
from walras_contracts.work import DrainState
from walras_drain import session_records
from walras_drain.handlers import DrainStage
from walras_drain.low_use import Low
from walras_drain.maintenance import Emptying
from walras_drain.orders import Order
from walras_drain.parts import Part, PartEnd
from walras_drain.pressure import Advice
from walras_drain.requests import Request
from walras_drain.scores import History
from walras_drain.session import Cancel, Session, Timeline
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import Barrier, Output, Record, Step, StepResult

texts, times = st.text(max_size=5), st.integers(0, 2**40)
times_or_none = st.none() | times
PART: dict[str, st.SearchStrategy[Any]] = {
    "node": texts,
    "reached": st.none() | st.sampled_from(DrainState),
    "holds": st.booleans(),
    "back": st.booleans(),
    "rejected": st.booleans(),
    "end": st.sampled_from(PartEnd),
    "outcome": texts,
    "lost": st.booleans(),
    "saved": st.booleans(),
    "forced": st.booleans(),
    "command": st.none() | st.sampled_from(DrainCommand),
    "blockers": st.lists(texts, max_size=3).map(tuple),
    "heard_ms": times_or_none,
    "warned_ms": times_or_none,
    "free_ms": times_or_none,
}
parts = st.builds(Part, **PART)
SESSION: dict[str, st.SearchStrategy[Any]] = {
    "session": texts,
    "lease": texts,
    "team": texts,
    "pool": texts,
    "job": texts,
    "number": times,
    "gang": times,
    "size_macc": times,
    "reason": st.sampled_from(VacateReason),
    "parts": st.lists(parts, max_size=3).map(tuple),
    "opened_ms": times,
    "waits_from_ms": times,
    "state": st.sampled_from(SessionState),
    "cancel": st.sampled_from(Cancel),
    "outcome": texts,
    "beyond_budget": st.booleans(),
    "held_up_by": texts,
    "timeline": st.none() | st.builds(Timeline, times, times, times, times),
    "commanded_ms": times_or_none,
    "deadline_ms": times_or_none,
    "again": st.none() | st.tuples(st.sampled_from(VacateReason), times),
    "ended_ms": times_or_none,
}
sessions = st.builds(Session, **SESSION)
others = st.one_of(
    st.builds(Order, texts, times, times, st.booleans()),
    st.builds(Advice, times, times),
    st.builds(Request, st.sampled_from(VacateReason), times, st.booleans()),
    st.builds(Low, st.dictionaries(texts, times, max_size=3), st.booleans()),
    st.builds(History, times, times, st.lists(times, max_size=4).map(tuple), times_or_none),
    st.builds(
        Emptying,
        *(st.sampled_from(NodeDrainState), times, st.lists(texts, max_size=3).map(tuple)),
        *(times, times, times, st.booleans()),
    ),
)


def test_every_field_of_a_session_and_of_a_part_is_drawn_here() -> None:
    """So that a field that is added is a field that is tried."""
    assert set(Session.__dataclass_fields__) == set(SESSION)
    assert set(Part.__dataclass_fields__) == set(PART)


@given(session=sessions)
def test_a_session_comes_back_as_it_was_kept(session: Session) -> None:
    assert session_records.parse(session.session, session_records.dump(session)) == session


@given(record=others)
def test_every_other_record_comes_back_as_it_was_kept(record: Any) -> None:
    assert type(record).parse(record.dump()) == record


def test_a_record_that_is_none_of_drain_s_stops_the_restart() -> None:
    with pytest.raises(InvariantBrokenError, match="unknown key 'quota/t1'"):
        DrainStage(5_000).load("quota/t1", b"{}")


class Late:
    """A stage that is handed its steps directly, so that a partition can be late."""

    def __init__(self) -> None:
        self.stage = DrainStage(5_000)
        self.number = -1
        self.kept: dict[str, bytes | None] = {}

    def step(self, *given: Output, late: bool = False) -> StepResult:
        self.number += 1
        topics = ("vacate", "lease.status", "drain.status", "node.health", "drain.orders")
        records: dict[str, list[Record]] = {topic: [] for topic in topics}
        for output in given:
            assert output.payload is not None
            event = decode_inner(output.type, output.payload)
            record = Record(output.topic, 0, 0, output.key, output.type, output.payload, event)
            if output.topic in records:
                records[output.topic].append(record)
            else:
                self.stage.fold(record)
        barrier = Barrier(self.number, 1_728_000_000 + 5_000 * self.number)
        result = self.stage.step(Step(barrier, records, ("leases/2@0",) if late else ()))
        self.kept.update({change.key: change.value for change in result.state})
        return result


def told(result: StepResult) -> list[str]:
    return [output.key for output in result.outputs if output.topic == "drain.commands"]


def test_a_vacate_waits_for_a_lease_that_is_read_late_and_for_all_of_its_parts(kit: Any) -> None:
    late, bench = Late(), kit.bench()
    first, second = kit.lease("g", "n1", "n2")
    assert told(late.step(bench.vacate("g"), late=True)) == []
    assert told(late.step(first, late=True)) == []
    kept = late.kept["vacate/g"]
    assert kept is not None
    again = DrainStage(5_000)
    again.load("vacate/g", kept)
    assert isinstance(again.state.unmatched["g"], VacateRequested)
    assert told(late.step(second)) == ["g/n1", "g/n2"]
    assert late.kept["vacate/g"] is None


def test_a_vacate_of_a_lease_that_has_ended_is_not_waited_for(kit: Any) -> None:
    late, bench = Late(), kit.bench()
    late.step(bench.vacate("l1"), late=True)
    late.step()
    assert late.kept["vacate/l1"] is None
    assert told(late.step(*kit.lease("l1"))) == []


def test_a_vacate_that_is_withdrawn_while_its_lease_is_late_is_forgotten(kit: Any) -> None:
    late, bench = Late(), kit.bench()
    late.step(bench.vacate("l1"), late=True)
    late.step(bench.stay("l1"), late=True)
    assert told(late.step(*kit.lease("l1"))) == []
