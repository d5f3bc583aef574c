"""Drains, cancels and ends of one part, step by step."""

import pytest

from services.node_agent.tests.lives import DEADLINE_MS, WARNING_MS, Walk
from walras_contracts.demand import Drainability
from walras_contracts.drains import DrainCommand
from walras_contracts.work import LeaseOutcome
from walras_node_agent.part_life import CallOff, Warn
from walras_node_agent.part_table import Effect, PartEvent, PartState
from walras_node_agent.parts import refused


def test_a_job_that_saves_and_ends_is_freed_without_a_signal() -> None:
    walk = Walk().run()
    walk.told_to()
    walk.event(PartEvent.HOOK_ACCEPTED)
    walk.event(PartEvent.SAVED)
    walk.event(PartEvent.GROUP_GONE, code=0)
    walk.free()

    states = ["warned", "checkpointing", "waiting", "verifying", "freed"]
    assert walk.drains() == [("s1", state, "") for state in states]
    assert walk.leases() == [("accepted", ""), ("running", ""), ("freed", "vacated")]
    assert Effect.TERMINATE not in walk.deeds


def test_a_job_that_says_it_has_saved_and_stays_is_terminated_soon() -> None:
    walk = Walk().run()
    walk.told_to()
    walk.event(PartEvent.SAVED)
    walk.wait_until(1_999)
    assert walk.stands(PartState.WAITING)
    walk.wait_until(2_000)

    assert walk.stands(PartState.TERMINATING)


def test_a_part_of_a_gang_that_has_saved_is_not_ended_before_its_time() -> None:
    walk = Walk(gang=True).run()
    walk.told_to()
    walk.event(PartEvent.SAVED)
    walk.wait_until(WARNING_MS - 1)
    assert walk.stands(PartState.WAITING)
    walk.wait_until(WARNING_MS)

    assert walk.stands(PartState.TERMINATING)


def test_a_job_that_ignores_everything_is_killed_at_its_deadline_and_told_as_forced() -> None:
    walk = Walk(drainability=Drainability.NONE).run()
    walk.told_to()
    walk.wait_until(90_000)
    assert walk.stands(PartState.KILLING)
    walk.event(PartEvent.GROUP_GONE, code=-9)
    walk.free()

    assert walk.drains() == [
        ("s1", "warned", ""),
        ("s1", "terminating", ""),
        ("s1", "terminating", ""),
        ("s1", "verifying", ""),
        ("s1", "freed", "forced"),
    ]
    assert [deed for deed in walk.deeds if isinstance(deed, Effect)][-3:] == [
        *(Effect.KILL, Effect.READ_DEVICES, Effect.READ_DEVICES)
    ]


@pytest.mark.parametrize("ends", [False, True])
def test_devices_that_are_not_seen_free_in_time_make_the_drain_fail(ends: bool) -> None:
    walk = Walk().run()
    walk.told_to()
    walk.wait_until(90_000)
    if ends:
        walk.event(PartEvent.GROUP_GONE, code=-9)
        walk.event(PartEvent.DEVICE_HELD)
    walk.wait_until(DEADLINE_MS)
    assert walk.drains()[-1] == ("s1", "failed", "device_not_freed")
    assert walk.leases()[-1] == ("stuck", "")

    walk.event(PartEvent.GROUP_GONE, code=-9)
    walk.free()
    assert walk.leases()[-1] == ("freed", "vacated")


def test_one_free_read_between_two_that_are_not_frees_nothing() -> None:
    walk = Walk().run()
    walk.event(PartEvent.GROUP_GONE, code=0)
    for event in (PartEvent.DEVICE_FREE, PartEvent.DEVICE_HELD, PartEvent.DEVICE_FREE):
        walk.event(event)
    assert walk.stands(PartState.VERIFYING)
    walk.event(PartEvent.DEVICE_FREE)
    assert walk.leases()[-1] == ("freed", "finished")


def test_no_read_counts_while_anything_of_the_part_runs() -> None:
    walk = Walk().run()
    walk.told_to()
    walk.wait_until(DEADLINE_MS)
    assert walk.stands(PartState.STUCK)
    walk.free()
    assert walk.stands(PartState.STUCK)


def test_what_a_process_leaves_behind_is_ended_after_it() -> None:
    walk = Walk().run()
    assert walk.event(PartEvent.EXITED, code=0) == [Effect.TERMINATE]
    walk.wait_until(10_000)
    assert walk.deeds[-1] is Effect.KILL
    walk.event(PartEvent.GROUP_GONE)
    walk.free()

    assert walk.leases()[-1] == ("freed", "finished")
    assert walk.drains() == []


def test_a_part_that_never_ran_is_freed_after_two_reads_when_it_is_drained() -> None:
    walk = Walk()
    walk.told_to()
    walk.free()

    assert walk.drains() == [("s1", "verifying", ""), ("s1", "freed", "")]
    assert walk.leases() == [("accepted", ""), ("freed", "vacated")]


@pytest.mark.parametrize("state", [*(PartEvent.HOOK_ACCEPTED, PartEvent.SAVED), None])
def test_a_cancel_that_comes_in_time_calls_the_job_back(state: PartEvent | None) -> None:
    walk = Walk().run()
    walk.told_to()
    if state is not None:
        walk.event(state)
    assert CallOff("s1") in walk.told_to(DrainCommand.CANCEL)
    walk.wait_until(10 * DEADLINE_MS)

    assert walk.stands(PartState.RUNNING)
    assert walk.drains()[-1] == ("s1", "cancelled", "")


@pytest.mark.parametrize("gang", [False, True])
def test_a_cancel_that_comes_too_late_is_rejected(gang: bool) -> None:
    walk = Walk(gang=gang).run()
    walk.told_to()
    walk.wait_until(WARNING_MS)
    walk.told_to(DrainCommand.CANCEL)

    assert walk.drains()[-1] == ("s1", "terminating", "cancel_rejected")


def test_a_part_of_a_gang_holds_still_until_it_is_told() -> None:
    walk = Walk(gang=True).run()
    walk.told_to()
    walk.told_to(DrainCommand.CANCEL)
    walk.wait_until(10 * DEADLINE_MS)
    assert walk.drains()[-1] == ("s1", "cancelling", "")
    walk.told_to(DrainCommand.CONFIRM)

    assert walk.stands(PartState.RUNNING)
    assert walk.drains()[-1] == ("s1", "cancelled", "")
    assert Effect.TERMINATE not in walk.deeds


def test_a_drain_that_is_resumed_goes_on_where_its_time_stands() -> None:
    walk = Walk(gang=True).run()
    walk.told_to()
    walk.told_to(DrainCommand.CANCEL)
    walk.now_ms = WARNING_MS + 5_000
    walk.told_to(DrainCommand.RESUME)
    assert walk.stands(PartState.WARNED)
    walk.wait_until(walk.now_ms)

    assert walk.stands(PartState.TERMINATING)


def test_a_gang_that_hears_of_a_drain_by_its_cancel_is_warned_when_it_is_resumed() -> None:
    walk = Walk(gang=True).run()
    walk.told_to(DrainCommand.CANCEL)
    assert walk.drains() == [("s1", "cancelling", "")]
    walk.now_ms = 7_000
    walk.told_to(DrainCommand.RESUME)

    assert [deed for deed in walk.deeds if isinstance(deed, Warn)][-1].leave_ms == 67_000


def test_a_cancel_of_another_drain_changes_nothing() -> None:
    walk = Walk().run()
    walk.told_to(session="s2")
    assert walk.told_to(DrainCommand.CANCEL, "s1") == []
    assert walk.stands(PartState.WARNED)


def test_a_new_drain_takes_the_place_of_the_one_before() -> None:
    walk = Walk().run()
    walk.told_to(session="s1")
    walk.now_ms = 40_000
    walk.told_to(session="s2")
    assert walk.drains() == [("s1", "warned", ""), ("s1", "cancelled", ""), ("s2", "warned", "")]
    walk.wait_until(99_999)
    assert walk.stands(PartState.WARNED)


def test_an_answer_to_an_older_drain_means_nothing() -> None:
    walk = Walk().run()
    walk.told_to(session="s2")
    assert walk.event(PartEvent.SAVED, session="s1") == []
    assert walk.stands(PartState.WARNED)


def test_a_command_that_comes_while_a_part_is_started_counts_from_its_start() -> None:
    walk = Walk()
    walk.event(PartEvent.MAY_START)
    assert walk.told_to() == []
    walk.now_ms = 3_000
    walk.event(PartEvent.STARTED)

    assert walk.leases() == [("accepted", ""), ("running", "")]
    assert walk.stands(PartState.WARNED)
    assert walk.known().leave_ms == 63_000


def test_a_part_whose_record_ends_while_it_is_started_is_ended_and_forgotten() -> None:
    walk = Walk()
    walk.event(PartEvent.MAY_START)
    walk.event(PartEvent.LEASE_ENDED)
    walk.event(PartEvent.STARTED)
    assert walk.stands(PartState.TERMINATING)
    walk.event(PartEvent.GROUP_GONE, code=-15)
    walk.free()

    assert walk.life is None
    assert walk.leases()[-1] == ("freed", "vacated")
    assert walk.deeds[-1] is Effect.FORGET


@pytest.mark.parametrize(
    ("drainability", "saved", "code", "outcome"),
    [
        (Drainability.CHECKPOINT, True, 0, LeaseOutcome.VACATED),
        (Drainability.CHECKPOINT, False, 0, LeaseOutcome.FINISHED),
        (Drainability.CHECKPOINT, False, 1, LeaseOutcome.VACATED),
        (Drainability.RESTART, False, 0, LeaseOutcome.FINISHED),
        (Drainability.RESTART, False, -10, LeaseOutcome.VACATED),
        (Drainability.RESTART, True, 0, LeaseOutcome.VACATED),
        (Drainability.NONE, False, 0, LeaseOutcome.FINISHED),
    ],
)
def test_how_a_job_ends_while_it_is_asked_to_leave(
    drainability: Drainability, saved: bool, code: int, outcome: LeaseOutcome
) -> None:
    walk = Walk(drainability=drainability).run()
    walk.told_to()
    if saved:
        walk.event(PartEvent.SAVED)
    walk.event(PartEvent.GROUP_GONE, code=code)
    walk.free()

    assert walk.leases()[-1] == ("freed", outcome.value)


@pytest.mark.parametrize(("after_ms", "outcome"), [(10_000, "vacated"), (10_001, "finished")])
def test_a_job_that_was_called_back_on_its_way_out_is_not_finished(
    after_ms: int, outcome: str
) -> None:
    walk = Walk().run()
    walk.told_to()
    walk.event(PartEvent.SAVED)
    walk.told_to(DrainCommand.CANCEL)
    walk.now_ms += after_ms
    walk.event(PartEvent.GROUP_GONE, code=0)
    walk.free()

    assert walk.leases()[-1] == ("freed", outcome)


def test_a_job_that_saved_just_when_it_was_called_back_has_left() -> None:
    walk = Walk().run()
    walk.told_to()
    walk.told_to(DrainCommand.CANCEL)
    assert walk.event(PartEvent.SAVED) == []
    walk.event(PartEvent.GROUP_GONE, code=0)
    walk.free()

    assert walk.leases()[-1] == ("freed", "vacated")


def test_a_process_that_is_gone_when_the_agent_comes_back_is_lost() -> None:
    walk = Walk().run()
    walk.event(PartEvent.LOST)
    walk.free()
    assert walk.leases()[-1] == ("freed", "lost")


def test_a_part_that_is_found_again_goes_on_where_it_stood() -> None:
    walk = Walk().run()
    assert walk.event(PartEvent.FOUND) == []
    walk.told_to()
    assert isinstance(walk.event(PartEvent.FOUND)[0], Warn)
    walk.wait_until(WARNING_MS)
    assert walk.event(PartEvent.FOUND) == [Effect.TERMINATE]


def test_a_part_that_could_not_be_started_says_why() -> None:
    walk = Walk()
    walk.event(PartEvent.MAY_START)
    walk.event(PartEvent.START_FAILED)
    walk.free()
    assert walk.leases() == [("accepted", ""), ("freed", "start_failed")]


def test_a_refused_part_answers_a_drain_and_is_forgotten_with_its_record() -> None:
    life, deeds = refused(False, Drainability.RESTART, "device 0 is held")
    assert [str(deed.outcome) for deed in deeds if hasattr(deed, "outcome")] == ["refused"]
    walk = Walk()
    walk.life, walk.deeds = life, []
    walk.told_to()
    assert walk.drains() == [("s1", "freed", "")]
    assert walk.event(PartEvent.LEASE_ENDED) == [Effect.FORGET]


def test_a_cancel_that_was_accepted_is_not_rejected_when_it_is_said_again() -> None:
    walk = Walk().run()
    walk.told_to()
    walk.told_to(DrainCommand.CANCEL)
    walk.event(PartEvent.EXITED, code=1)
    assert walk.told_to(DrainCommand.CANCEL) == []
    assert walk.drains()[-1] == ("s1", "cancelled", "")
