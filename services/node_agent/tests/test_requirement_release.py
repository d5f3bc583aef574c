"""Devices are released when they are free, not when somebody says so (R20); what is stuck costs
no team anything (R16); who waits is told why at least every 10 s (R15).
"""

from itertools import pairwise
from pathlib import Path

import pytest

from services.node_agent.tests.agent_rig import check_usage, rig
from services.node_agent.tests.lives import command
from services.node_agent.tests.test_agent_node import OFFSET_MS, Course
from walras_contracts.demand import Drainability
from walras_contracts.work import UsageMetered
from walras_node_agent.host.machine import boottime_ms
from walras_node_agent.part_table import PartEvent

WARNING_MS = 20_000
IGNORES_MS = 45_000
"""So long the task of the report ignored SIGTERM."""
GRACE_MS = 10_000
LOOK_MS = 1_000
DAY_MS = 86_400_000


def told_to_leave() -> Course:
    """A part that runs since 0 and was told to leave then."""
    course = Course().running()
    course.node.command(command(warning_ms=WARNING_MS, terminate_ms=60_000), 0)
    course.take()
    return course


def freed_at(course: Course) -> list[int]:
    return [
        told["at_ms"] - OFFSET_MS for told in course.of("lease.status") if told["state"] == "freed"
    ]


def test_a_task_that_ignores_sigterm_for_45_s_is_released_45_s_later_and_no_sooner() -> None:
    course = told_to_leave()
    gone_ms = WARNING_MS + IGNORES_MS
    for at_ms in range(0, gone_ms, LOOK_MS):
        course.tick(at_ms)
        # Its devices may look free: what counts is that the process has gone.
        course.happens(PartEvent.DEVICE_FREE)
    assert freed_at(course) == []
    course.tick(gone_ms)
    course.happens(PartEvent.GROUP_GONE, exit_code=0)
    course.happens(PartEvent.DEVICE_FREE)
    assert freed_at(course) == [], "one read is none"
    course.tick(gone_ms + 500)
    course.happens(PartEvent.DEVICE_FREE)
    states = {told["state"]: told["at_ms"] for told in reversed(course.of("drain.status"))}
    assert freed_at(course) == [gone_ms + 500]
    assert freed_at(course)[0] + OFFSET_MS - states["terminating"] >= IGNORES_MS


def test_memory_that_is_still_held_begins_the_two_reads_anew() -> None:
    course = told_to_leave()
    course.tick(WARNING_MS)
    course.happens(PartEvent.GROUP_GONE, exit_code=0)
    for event in (PartEvent.DEVICE_FREE, PartEvent.DEVICE_HELD, PartEvent.DEVICE_FREE):
        course.happens(event)
    assert freed_at(course) == []
    course.happens(PartEvent.DEVICE_FREE)
    assert freed_at(course) == [WARNING_MS]


@pytest.mark.parametrize("gone", [False, True], ids=["process stays", "memory stays"])
def test_whatever_is_stuck_for_a_day_its_team_pays_for_the_grace_and_for_nothing_behind_it(
    gone: bool,
) -> None:
    course = told_to_leave()
    deadline_ms = WARNING_MS + 60_000 + 10_000
    for at_ms in (*range(0, deadline_ms + LOOK_MS, LOOK_MS), *range(100_000, DAY_MS, 3_600_000)):
        course.tick(at_ms)
        if gone and at_ms == WARNING_MS:
            course.happens(PartEvent.GROUP_GONE, exit_code=0)
            course.happens(PartEvent.DEVICE_HELD)
    assert [told["state"] for told in course.of("lease.status")][-1] == "stuck"
    assert course.of("drain.status")[-1]["outcome"] == "device_not_freed"
    used = course.of("usage")
    paid_ms = sum(u["end_ms"] - u["start_ms"] for u in used if u["billable"])
    held_ms = sum(u["end_ms"] - u["start_ms"] for u in used)
    assert paid_ms == GRACE_MS
    assert held_ms > DAY_MS - 2 * 3_600_000, "it is metered all the same: the platform's cost"
    assert {u["work_class"] for u in used} == {"overhang"}


def test_until_the_end_of_a_drain_somebody_is_named_at_least_every_ten_seconds() -> None:
    course = told_to_leave()
    course.node.blockers["l1"] = ("process 812 (python)",)
    for at_ms in range(0, 92_000, 200):
        course.tick(at_ms)
    told = course.of("drain.status")
    assert told[-1]["state"] == "failed"
    assert all(later["at_ms"] - one["at_ms"] <= 10_000 for one, later in pairwise(told))
    assert all(each["blockers"] for each in told[:-1])


@pytest.mark.slow
def test_a_real_task_that_ignores_sigterm_for_45_s_is_released_45_s_later(tmp_path: Path) -> None:
    with rig(tmp_path) as node:
        node.grant("stubborn", drainability=Drainability.NONE)
        node.until_running()
        began_ms = boottime_ms()
        node.drain(warning_ms=500, terminate_ms=IGNORES_MS, verify_ms=5_000)
        node.until_boot_ms(began_ms + IGNORES_MS - 5_000)
        assert node.processes(), "it is still there"
        assert [state for state, _ in node.statuses()] == ["accepted", "running"]
        freed = node.until_freed()
        said = {drain.state.value: drain.at_ms for drain in reversed(node.drains())}
        assert freed.at_ms - said["terminating"] >= IGNORES_MS
        usage = node.usage()
        check_usage(usage)
        assert unbilled_ms(usage) >= IGNORES_MS - GRACE_MS


def unbilled_ms(usage: list[UsageMetered]) -> int:
    return sum(each.end_ms - each.start_ms for each in usage if not each.billable)
