"""The order of a team's queue, missed deadlines, jobs that park, and jobs that never fit."""

from collections.abc import Sequence
from typing import Any

import pytest

from walras_contracts.accounts import QueueOrder
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import LeaseOutcome
from walras_placement.decisions import Plan
from walras_placement.parking import (
    FIRST_PAUSE_MS,
    LONGEST_PAUSE_MS,
    is_failed_start,
    pause_ms,
)
from walras_placement.plan import plan
from walras_placement.rules import Moment, Rules
from walras_placement.state import PlacementState

MINUTE_MS = 60_000


def test_a_queue_by_deadline_serves_the_earliest_first_and_those_without_last(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.queue_order("t1", QueueOrder.DEADLINE),
        kit.node("n1", 8),
        kit.quota("t1", a=(2, 0, 5)),
        bench.job("whenever", 1),
        bench.job("late", 1, deadline_minute=90),
        bench.job("soon", 1, deadline_minute=30),
        bench.job("other", 1, team="t2", deadline_minute=10),
    )
    assert sorted(bench.leases) == ["late", "soon"]


@pytest.mark.parametrize("crash", [False, True])
def test_a_change_of_the_order_counts_from_when_it_takes_effect(kit: Any, crash: bool) -> None:
    bench = kit.bench(crash=crash)
    bench.step(
        kit.queue_order("t1", QueueOrder.POSITION),
        kit.queue_order("t1", QueueOrder.DEADLINE, version=2, minute=2),
        kit.node("n1", 8),
        bench.job("first", 1),
        bench.job("soon", 1, deadline_minute=30),
    )
    bench.step(kit.quota("t1", a=(1, 0, 5)))
    assert list(bench.leases) == ["first"]
    bench.step(*bench.freed("first"), bench.job("second", 1))
    assert list(bench.leases) == ["soon"]


@pytest.mark.parametrize("crash", [False, True])
def test_a_missed_deadline_counts_once_whatever_the_job_does(kit: Any, crash: bool) -> None:
    bench = kit.bench(crash=crash)
    bench.step(
        kit.node("n1", 1),
        kit.quota("t1", a=(1, 0, 5)),
        bench.job("runs", 1, deadline_minute=3),
        bench.job("waits", 1, deadline_minute=3),
        bench.job("done", 1, team="t2", deadline_minute=5),
        kit.quota("t2", a=(1, 0, 5)),
        kit.node("n2", 1),
    )
    misses = [bench.figures["a"].deadline_misses]
    for number in range(1, 7):
        bench.step(*(bench.freed("done") if number == 2 else ()))
        misses.append(bench.figures["a"].deadline_misses)
    assert misses == [0, 0, 0, 2, 0, 0, 0]


def fail(bench: Any, name: str, outcome: str = "start_failed") -> None:
    bench.step(*bench.freed(name, outcome, 600_000))


@pytest.mark.parametrize("crash", [False, True])
def test_three_failed_starts_in_a_row_park_a_job_for_ten_minutes_then_twenty(
    kit: Any, crash: bool
) -> None:
    bench = kit.bench(crash=crash)
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    for _ in range(2):
        fail(bench, "j1", "refused")
        assert bench.states()["j1"] == "running", "tried again at once"
    fail(bench, "j1")
    for pause in (10, 20, 40):
        assert bench.statuses["j1"].reason == WaitReason.PARKED
        assert bench.figures["a"].parked_jobs == 1
        for _ in range(pause - 1):
            bench.step()
        assert bench.states()["j1"] == "pending"
        bench.step()
        assert bench.states()["j1"] == "running"
        fail(bench, "j1", "failed")


def test_a_parked_job_leaves_its_quota_to_the_next(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1), bench.job("j2", 1)
    )
    for _ in range(3):
        fail(bench, "j1")
    assert bench.states()["j2"] == "running"


def test_a_start_that_lasts_begins_the_count_anew(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    for _ in range(2):
        fail(bench, "j1")
    for _ in range(5):
        bench.step()
    fail(bench, "j1", "failed")
    assert bench.state.jobs["t1/j1"].failures == 0
    fail(bench, "j1", "lost")
    assert bench.state.jobs["t1/j1"].failures == 0, "its node was at fault"


@pytest.mark.parametrize(
    ("failures", "pause"),
    [
        (0, 0),
        (2, 0),
        (3, FIRST_PAUSE_MS),
        (5, 4 * FIRST_PAUSE_MS),
        (10, 128 * FIRST_PAUSE_MS),
        (11, LONGEST_PAUSE_MS),
        (10_000, LONGEST_PAUSE_MS),
    ],
)
def test_the_pause_doubles_up_to_a_day(failures: int, pause: int) -> None:
    assert pause_ms(failures) == pause


def test_an_error_soon_after_the_grant_is_a_failed_start_and_a_later_one_is_not() -> None:
    assert is_failed_start(LeaseOutcome.FAILED, 299_999)
    assert not is_failed_start(LeaseOutcome.FAILED, 300_000)
    assert is_failed_start(LeaseOutcome.START_FAILED, 10**9)
    assert not is_failed_start(LeaseOutcome.VACATED, 1)


def course(kit: Any, *, impossible: bool) -> tuple[dict[str, int], list[int]]:
    """Jobs come and go; return when each started, and the steps that looked at the large team."""
    looked: list[int] = []

    def watched(
        state: PlacementState, moment: Moment, rules: Rules, scope: Sequence[str] | None = None
    ) -> Plan:
        made = plan(state, moment, rules, scope)
        if "huge" in made.outcomes:
            looked.append(moment.step)
        return made

    bench = kit.bench(planner=watched)
    bench.step(
        kit.node("n1", 4),
        *(kit.quota(f"t{number}", a=(1, 0, 5)) for number in range(4)),
        kit.quota("huge", a=(4, 0, 5)),
    )
    if impossible:
        bench.step(bench.job("never", 64, team="huge"))
    else:
        bench.step()
    started: dict[str, int] = {}
    for number in range(40):
        given = [bench.job(f"j{number}", 1, team=f"t{number % 4}")]
        running = sorted(bench.leases)
        if len(running) > 2:
            given += bench.freed(running[0])
        written = bench.step(*given)
        started.update(dict.fromkeys(kit.granted(written), number))
    return started, looked


def test_an_impossible_job_costs_the_others_nothing_and_is_not_looked_at_again(kit: Any) -> None:
    """R11: parked as larger than all there is; grants are those of the run without it."""
    (without, _), (beside, looked) = (course(kit, impossible=each) for each in (False, True))
    assert beside == without
    assert looked == [0, 1], "when it had quota and when the job came"
