"""What a run of drains says of itself, and what makes it prove nothing."""

from collections.abc import Callable

import pytest

from tests.chaos.plan import Gap
from tests.chaos.waiting import ChaosError
from tests.chaos_drains.plan import MOST_STEPS, Disturbance, Kind, Plan
from tests.chaos_drains.rehearsal import rehearse
from tests.chaos_drains.run import READINGS, Report, check_clock, clocks_apart_ms
from tests.chaos_drains.session import has_enough_drains
from tests.chaos_drains.verdict import judge


def clocks(*, late_at: int, late_ms: int) -> tuple[Callable[[], int], Callable[[], int]]:
    """A wall clock a minute before the time since boot; one reading of it comes late."""
    now_ms, readings = 1_000, 0

    def wall() -> int:
        nonlocal now_ms, readings
        now_ms += late_ms if readings == late_at else 0
        readings += 1
        return now_ms + 60_000

    return wall, lambda: now_ms


@pytest.mark.parametrize("late_at", range(READINGS))
def test_a_process_that_loses_its_turn_between_two_clocks_does_not_take_one_for_set(
    late_at: int,
) -> None:
    assert clocks_apart_ms(*clocks(late_at=late_at, late_ms=500)) == 60_000


def test_a_wall_clock_that_was_set_is_seen() -> None:
    check_clock(clocks_apart_ms())
    with pytest.raises(ChaosError, match="the wall clock was set"):
        check_clock(clocks_apart_ms() - 1_000)


def test_a_report_has_names_that_programs_can_read() -> None:
    document = Report(1, {}, {}, judge(rehearse().history), 1.0).document()
    assert [name for name in document if not name.isidentifier()] == []
    assert document["largest_gap_of_use_ms"] == 0


def test_a_disturbance_names_a_node_where_it_has_to_do_with_one() -> None:
    def said(kind: Kind, *pair: Kind, gap: Gap | None = None) -> str:
        return Disturbance(kind, pair, "n2", gap, 0, 0, 0).describe()

    assert said(Kind.AGENT_AWAY) == "agent away (n2)"
    assert said(Kind.TOGETHER, Kind.AGENT, Kind.BROKER) == "agent and broker (n2)"
    assert said(Kind.TOGETHER, Kind.DRAIN, Kind.PLACEMENT) == "drain and placement"
    assert said(Kind.BROKER) == "broker"
    assert said(Kind.DRAIN, gap=Gap.AFTER_COMMIT) == "drain (after commit)"


def test_a_run_whose_jobs_are_over_before_enough_drains_have_begun_ends() -> None:
    plan = Plan(1, 20, ())
    assert not has_enough_drains(plan, 19, MOST_STEPS - 1)
    assert has_enough_drains(plan, 20, MOST_STEPS)
    with pytest.raises(ChaosError, match="19 of 20 drains begun in 6000 steps"):
        has_enough_drains(plan, 19, MOST_STEPS)
