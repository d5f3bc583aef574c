"""A start pays for at least five minutes, unless others ended it (design §5)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.node_agent.tests.fleet_bench import MINUTE_MS, START_MS, Bench, drain, part
from services.node_agent.tests.grants import grant
from services.node_agent.tests.test_agent_node import OFFSET_MS, Course
from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommand, VacateReason
from walras_contracts.work import DrainState, LeaseGranted, LeaseOutcome, UsageMetered, WorkClass
from walras_node_agent.agent.held_part import HeldPart
from walras_node_agent.agent.metering import Terms, usage
from walras_node_agent.agent.recovery import Start, give_back, recover, turn_entry, whole
from walras_node_agent.minimum_start import (
    MINIMUM_START_MS,
    owed_until,
    owes,
)
from walras_node_agent.part_table import PartEvent
from walras_node_agent.usage_pieces import USAGE_INTERVAL_MS, pieces
from walras_runtime.records import emit, tombstone

LONG_MS = MINIMUM_START_MS + 10 * MINUTE_MS


def billed_ms(usage: list[UsageMetered]) -> int:
    return sum(u.end_ms - u.start_ms for u in usage if u.billable)


@pytest.mark.parametrize("outcome", list(LeaseOutcome))
@pytest.mark.parametrize("work_class", list(WorkClass))
@pytest.mark.parametrize("left_for", [None, *(reason.value for reason in VacateReason)])
def test_only_what_was_bought_and_ended_by_itself_or_its_owner_owes(
    outcome: LeaseOutcome, work_class: WorkClass, left_for: str | None
) -> None:
    ended = {
        None: {LeaseOutcome.FINISHED, LeaseOutcome.FAILED},
        "cancelled": {LeaseOutcome.FINISHED, LeaseOutcome.FAILED, LeaseOutcome.VACATED},
    }.get(left_for, set())
    expected = work_class is WorkClass.MARKET and outcome in ended
    assert owes(work_class, outcome, left_for) == expected


@given(
    start=st.integers(0, 10**7),
    rest=st.integers(1, MINIMUM_START_MS),
    looks=st.lists(st.integers(0, 2 * MINIMUM_START_MS), max_size=6),
)
def test_what_is_owed_is_told_as_it_passes_and_cut_the_same_however_often_one_looks(
    start: int, rest: int, looks: list[int]
) -> None:
    owed: UsageMetered | None
    (owed,) = usage(grant(), 7, [(start, start + rest)], Terms(WorkClass.MARKET))
    told: list[UsageMetered] = []
    for now_ms in [*sorted(start + look for look in looks), start + 2 * MINIMUM_START_MS]:
        if owed is not None:
            more, owed = owed_until(owed, now_ms)
            told += more
        assert all(u.end_ms <= now_ms for u in told)
        assert owed is None or owed.start_ms + USAGE_INTERVAL_MS > now_ms
    assert owed is None
    assert [(u.start_ms, u.end_ms) for u in told] == pieces(start, start + rest)
    assert [u.seq for u in told] == list(range(7, 7 + len(told)))


# The simulated fleet.


def test_a_lease_that_ended_early_is_metered_up_to_five_minutes_as_they_pass() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=90_000)))
    bench.steps(60_000)
    assert bench.metered()[-1] == (60_000, 90_000, "market", True)
    bench.steps(120_000, 180_000, 240_000)

    assert bench.metered()[2:] == [
        (start, end, "market", True) for start, end in _pieces(90_000, MINIMUM_START_MS)
    ]
    bench.check_usage()
    assert [u.running_ms for u in bench.usage] == [60_000, 30_000, *[0] * (len(bench.usage) - 2)]
    bench.steps(300_000, 360_000)
    assert billed_ms(bench.usage) == MINIMUM_START_MS


@pytest.mark.parametrize("run_ms", [MINIMUM_START_MS, MINIMUM_START_MS + 1])
def test_a_lease_that_ran_for_five_minutes_owes_nothing(run_ms: int) -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=run_ms)))
    bench.steps(*range(60_000, LONG_MS, 60_000))

    assert billed_ms(bench.usage) == run_ms
    assert bench.told()[-1][:2] == ("freed", "finished")


def test_each_part_of_a_gang_pays_for_its_devices() -> None:
    bench = Bench()
    first, second = part(parts=2), part(parts=2, number=1, node="n2")
    bench.step(0, emit(first), emit(second))
    bench.steps(*range(60_000, LONG_MS, 60_000))

    for node in ("n1", "n2"):
        assert billed_ms([u for u in bench.usage if u.node == node]) == MINIMUM_START_MS


def test_a_lease_at_price_0_or_asked_to_leave_pays_for_no_minute_that_it_did_not_run() -> None:
    free, asked = Bench(), Bench()
    free.step(0, emit(part(work_class=WorkClass.OPPORTUNISTIC)))
    asked.step(0, emit(part(run_ms=None)))
    asked.step(60_000, drain(60_000))
    for bench in (free, asked):
        bench.steps(*range(120_000, LONG_MS, 60_000))
        assert bench.told()[-1][0] == "freed"
        assert max(u.end_ms for u in bench.usage) == max(s.at_ms for s in bench.statuses)


@pytest.mark.parametrize("crash", [False, True])
def test_a_lease_that_its_owner_cancelled_pays_for_five_minutes(*, crash: bool) -> None:
    bench = Bench(crash=crash)
    bench.step(0, emit(part(run_ms=None)))
    bench.step(60_000, drain(60_000, reason=VacateReason.CANCELLED))
    bench.steps(*range(120_000, LONG_MS, 60_000))

    assert bench.told()[-1][1] == "vacated"
    assert billed_ms(bench.usage) == MINIMUM_START_MS
    assert bench.usage[-1].work_class is WorkClass.MARKET
    bench.check_usage()


def test_a_lease_whose_record_ended_while_it_ran_owes_nothing() -> None:
    """It ignores SIGTERM, and finishes before SIGKILL."""
    bench = Bench(interval_ms=10_000)
    bench.step(0, emit(part(run_ms=90_000, drainability=Drainability.NONE)))
    bench.steps(*range(10_000, 70_000, 10_000))
    bench.step(70_000, tombstone(LeaseGranted, "l1/n1", "n1"))
    bench.steps(*range(80_000, LONG_MS, 10_000))

    assert bench.told()[-1][:3] == ("freed", "finished", 90_000)
    assert billed_ms(bench.usage) == 70_000


@pytest.mark.parametrize("crash", [False, True])
def test_time_that_was_not_billed_counts_for_nothing(*, crash: bool) -> None:
    """What ran at price 0 is not billed while it leaves; then it is bought."""
    bench = Bench(interval_ms=10_000, crash=crash)
    bench.step(0, emit(part(run_ms=120_000, work_class=WorkClass.OPPORTUNISTIC)))
    bench.steps(10_000)
    bench.step(20_000, drain(20_000))
    bench.steps(30_000, 40_000)
    bench.step(50_000, drain(50_000, DrainCommand.CANCEL))
    bench.step(60_000, emit(part(run_ms=120_000)))
    bench.steps(*range(70_000, LONG_MS, 10_000))

    assert bench.told()[-1][:3] == ("freed", "finished", 120_000)
    assert billed_ms(bench.usage) == MINIMUM_START_MS


def test_what_the_log_says_when_a_lease_ended_already_changes_nothing_of_what_it_owes() -> None:
    """The barriers between its end and the record were missing."""
    was_free, is_free = Bench(), Bench()
    was_free.step(0, emit(part(work_class=WorkClass.OPPORTUNISTIC)))
    was_free.step(150_000, emit(part()))
    is_free.step(0, emit(part()))
    is_free.step(150_000, emit(part(work_class=WorkClass.OPPORTUNISTIC)))
    for bench in (was_free, is_free):
        bench.steps(*range(180_000, LONG_MS, 60_000))
        bench.check_usage()

    assert billed_ms(was_free.usage) == 90_000
    assert billed_ms(is_free.usage) == MINIMUM_START_MS
    assert {u.work_class for u in is_free.usage} == {WorkClass.MARKET}


def test_what_is_owed_is_paid_though_the_record_of_the_lease_ended() -> None:
    bench = Bench()
    bench.step(0, emit(part(run_ms=1)))
    bench.step(60_000, tombstone(LeaseGranted, "l1/n1", "n1"))
    bench.steps(*range(120_000, LONG_MS, 60_000))

    assert billed_ms(bench.usage) == MINIMUM_START_MS


@given(
    jumps=st.lists(st.integers(1, 200_000), min_size=1, max_size=8),
    run_ms=st.integers(0, LONG_MS),
    said=st.dictionaries(
        st.integers(0, 7), st.sampled_from([DrainCommand.DRAIN, DrainCommand.CANCEL]), max_size=3
    ),
)
def test_a_start_that_ends_by_itself_pays_exactly_the_larger_of_its_time_and_five_minutes(
    jumps: list[int], run_ms: int, said: dict[int, DrainCommand]
) -> None:
    """Drains that were called off count by what was billed of them; crashes change nothing."""
    benches = Bench(), Bench(crash=True)
    for bench in benches:
        at_ms = 0
        bench.step(0, emit(part(run_ms=run_ms)))
        for number, jump in enumerate([*jumps, *[150_000] * 12]):
            at_ms += jump
            bench.step(at_ms, *[drain(at_ms, said[n]) for n in [number] if n in said])
        if bench.usage:
            bench.check_usage()
        (freed,) = [s for s in bench.statuses if s.state.value == "freed"]
        # What is asked to leave when it is gone already is told so: freed, and nothing else.
        asked = [d.state.value for d in bench.drains if d.state is not DrainState.FREED]
        if any(d.warned_ms == freed.at_ms for d in bench.drains):
            # It ended in the millisecond of a command: before it, or because of it.
            assert billed_ms(bench.usage) in {run_ms, max(run_ms, MINIMUM_START_MS)}
        elif freed.outcome is LeaseOutcome.FINISHED and not asked:
            assert billed_ms(bench.usage) == max(run_ms, MINIMUM_START_MS)
        elif freed.outcome is LeaseOutcome.FINISHED and asked[-1] == "cancelled":
            assert billed_ms(bench.usage) >= MINIMUM_START_MS
        else:
            assert max((u.end_ms for u in bench.usage), default=0) <= freed.at_ms
    assert benches[0].log.entries == benches[1].log.entries


def _pieces(start_ms: int, end_ms: int) -> list[tuple[int, int]]:
    whole = pieces(START_MS + start_ms, START_MS + end_ms)
    return [(start - START_MS, end - START_MS) for start, end in whole]


# The agent of a node.


def ended(course: Course, at_ms: int, **facts: Any) -> Course:
    """Let the job of l1 end by itself, and its device be read free a second later."""
    course.now_ms = at_ms
    course.happens(PartEvent.EXITED, **facts)
    course.happens(PartEvent.GROUP_GONE)
    course.now_ms = at_ms + 1_000
    for _ in range(2):
        course.happens(PartEvent.DEVICE_FREE)
    return course


def used(course: Course) -> list[UsageMetered]:
    told = course.of("usage")
    return [UsageMetered.model_validate(each) for each in told]


@pytest.mark.parametrize("exit_code", [0, 3])
def test_a_job_that_ended_early_pays_the_rest_behind_the_reading_of_its_devices(
    exit_code: int,
) -> None:
    course = ended(Course().running(), 70_000, exit_code=exit_code)
    for at_ms in range(71_000, 71_000 + 230_000, 1_000):
        course.tick(at_ms)
        assert max(u.end_ms for u in used(course)) <= OFFSET_MS + at_ms
    course.tick(71_000 + 230_000 - 1)
    assert billed_ms(used(course)) < MINIMUM_START_MS
    course.tick(71_000 + 230_000)

    told = used(course)
    assert billed_ms(told) == MINIMUM_START_MS
    assert [u.seq for u in told] == list(range(len(told)))
    assert [u.start_ms for u in told[1:]] == [u.end_ms for u in told[:-1]]
    assert {u.running_ms for u in told if u.start_ms >= OFFSET_MS + 71_000} == {0}
    assert {u.running_ms for u in told if u.start_ms < OFFSET_MS + 71_000} == {None}
    course.tick(10 * MINIMUM_START_MS)
    assert used(course) == told


def test_a_job_that_did_not_start_pays_nothing() -> None:
    course = Course()
    course.grant(grant())
    course.happens(PartEvent.START_FAILED, detail="no such program")
    for _ in range(2):
        course.happens(PartEvent.DEVICE_FREE)
    course.tick(LONG_MS)

    assert (course.of("lease.status")[-1]["outcome"], used(course)) == ("start_failed", [])


def test_a_job_that_was_asked_to_leave_pays_for_no_minute_that_it_did_not_run() -> None:
    course = Course().running()
    course.command()
    ended(course, 20_000, exit_code=0)
    course.tick(LONG_MS)

    assert course.node.owed == {}
    assert max(u.end_ms for u in used(course)) == OFFSET_MS + 21_000


@pytest.mark.parametrize("said", [DrainCommand.DRAIN, DrainCommand.CANCEL])
def test_what_it_is_told_while_its_devices_are_read_changes_nothing(said: DrainCommand) -> None:
    course = Course().running()
    course.now_ms = 20_000
    course.happens(PartEvent.EXITED, exit_code=1)
    course.happens(PartEvent.GROUP_GONE)
    course.command(said)
    for _ in range(2):
        course.happens(PartEvent.DEVICE_FREE)
    course.tick(LONG_MS)

    assert course.of("lease.status")[-1]["outcome"] == "failed"
    assert billed_ms(used(course)) == MINIMUM_START_MS


def test_a_part_of_a_journal_from_before_there_was_a_least_time_owes_nothing() -> None:
    course = Course().running()
    document = course.node.parts["l1"].dump()
    del document["billed_ms"], document["left_for"]
    course.node.parts["l1"] = HeldPart.parse(document)
    ended(course, 70_000, exit_code=0)
    course.tick(LONG_MS)

    assert billed_ms(used(course)) == 70_000


def test_what_is_owed_is_cut_later_where_there_is_no_room_for_use() -> None:
    course = ended(Course().running(), 70_000, exit_code=0)
    course.tick(LONG_MS, defer_usage=True)
    assert billed_ms(used(course)) == 70_000
    course.tick(LONG_MS)
    assert billed_ms(used(course)) == MINIMUM_START_MS


class Journal:
    """The entries of an agent's turns, and what it told in them."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.entries: list[dict[str, Any]] = []
        course.take = self.take  # type: ignore[method-assign] # turns go to the journal first

    def take(self) -> None:
        turn = self.course.node.take_turn()
        entry = turn_entry(self.course.node, turn, len(self.course.told))
        self.course.told += turn.events
        self.entries += [] if entry is None else [json.loads(json.dumps(entry))]

    def shorten(self) -> None:
        kept = whole(self.course.node, Start("boot", OFFSET_MS), [], 0, {})
        self.entries = [json.loads(json.dumps(entry)) for entry in kept]


@pytest.mark.parametrize("shortened", [False, True])
def test_an_agent_that_comes_back_still_knows_what_is_owed_and_tells_it_once(
    *, shortened: bool
) -> None:
    journal = Journal(Course())
    ended(journal.course.running(), 70_000, exit_code=0)
    journal.course.node.end_lease("l1", 80_000)
    journal.take()
    if shortened:
        journal.shorten()
    known = recover(journal.entries)
    assert (known.parts, list(known.owed)) == ({}, ["l1"])

    back = Journal(Course())
    give_back(known, back.course.node)
    back.course.tick(LONG_MS)
    assert billed_ms(used(back.course)) == MINIMUM_START_MS - 70_000
    assert recover([*journal.entries, *back.entries]).owed == {}
