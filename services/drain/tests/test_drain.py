"""One drain from its request to its end: begun, followed, ended, cancelled (R15, R19, O21)."""

from itertools import pairwise
from typing import Any

import pytest

from walras_contracts.drains import DrainCommanded, DrainSessionChanged, NotificationIssued


def begun(kit: Any, *nodes: str, **bench: Any) -> Any:
    """A bench with lease `l1` on its nodes, whose drain has just begun."""
    bench_ = kit.bench(**bench)
    nodes = nodes or ("n1",)
    bench_.step(*(kit.node(node) for node in nodes), *kit.lease("l1", *nodes))
    bench_.step(bench_.vacate("l1"))
    return bench_


def test_a_lease_that_must_leave_is_told_the_whole_timeline_and_its_team_is_warned(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    written = bench.step(bench.vacate("l1"))

    [command] = written.of(DrainCommanded)
    assert isinstance(command, DrainCommanded)
    assert command.command == "drain"
    assert (command.warning_ms, command.terminate_ms, command.verify_ms) == (60000, 30000, 10000)
    assert command.commanded_ms == bench.now_ms
    assert command.deadline_ms == bench.now_ms + 100_000
    assert written.states == {"l1": "warned"}
    assert written.sessions["l1"].blockers == ("n1: its agent has not answered yet",)
    [notice] = written.of(NotificationIssued)
    assert isinstance(notice, NotificationIssued)
    assert (notice.kind, notice.session) == ("drain_warning", command.session)
    assert notice.deadline_ms == command.deadline_ms
    assert notice.text == "job-l1 must leave n1 by 00:01:45 UTC: quota_lost"


def test_a_session_is_as_far_as_its_least_advanced_part(kit: Any) -> None:
    bench = begun(kit, "n1", "n2")
    assert bench.step(bench.says("l1", "waiting", node="n1")).states == {"l1": "warned"}
    assert bench.step(bench.says("l1", "checkpointing", node="n2")).states == {
        "l1": "checkpointing"
    }
    written = bench.step(
        bench.says("l1", "terminating", node="n1"), bench.says("l1", "waiting", node="n2")
    )
    assert written.states == {"l1": "waiting"}
    bench.step(bench.lease_is("l1", node="n1"))
    written = bench.step(bench.says("l1", "verifying", node="n2"))
    assert written.states == {"l1": "verifying"}
    written = bench.step(bench.lease_is("l1", node="n2"))
    assert written.states == {"l1": "freed"}
    assert written.notices == [("drain_ended", "l1")]
    assert ("drain.commands", "l1/n2") in written.ended


def test_only_the_status_of_the_lease_ends_a_part_as_freed(kit: Any) -> None:
    bench = begun(kit)
    assert bench.step(bench.says("l1", "freed")).states == {"l1": "verifying"}
    assert bench.step(bench.lease_is("l1")).states == {"l1": "freed"}


def test_what_is_said_again_or_late_changes_nothing(kit: Any) -> None:
    bench = begun(kit)
    bench.step(bench.says("l1", "terminating"))
    written = bench.step(bench.says("l1", "warned"), bench.says("l1", "checkpointing"))
    assert written.states in ({}, {"l1": "terminating"})
    bench.step(bench.lease_is("l1"))
    written = bench.step(bench.lease_is("l1"), bench.says("l1", "freed"))
    assert written.events == []
    assert written.ended == []


@pytest.mark.parametrize("says", [(), ("warned",), ("warned", "waiting", "terminating")])
def test_a_session_ends_by_its_deadline_and_five_seconds_whatever_its_agent_says(
    kit: Any, says: tuple[str, ...]
) -> None:
    bench = begun(kit)
    deadline_ms = bench.now_ms + 100_000
    for state in says:
        bench.step(bench.says("l1", state))
    written = bench.step()
    while written.states.get("l1") != "failed":
        assert bench.now_ms < deadline_ms + 60_000
        written = bench.step()
    assert bench.now_ms == deadline_ms + 5_000
    assert written.sessions["l1"].outcome == "agent_lost"
    assert written.notices == [("drain_ended", "l1")]


def test_an_agent_that_goes_on_speaking_to_no_end_has_not_freed_its_devices(kit: Any) -> None:
    bench = begun(kit)
    while bench.now_ms < kit.START_MS + 105_000:
        written = bench.step(bench.says("l1", "verifying", blockers=("device 0 is held",)))
        assert written.states in ({}, {"l1": "verifying"})
    written = bench.step()
    assert written.sessions["l1"].outcome == "device_not_freed"
    assert written.sessions["l1"].blockers == ("n1: device 0 is held",)


def test_a_part_that_fails_waits_for_the_others_and_its_outcome_is_the_session_s(
    kit: Any,
) -> None:
    bench = begun(kit, "n1", "n2")
    bench.step(bench.says("l1", "failed", node="n1", outcome="device_not_freed"))
    written = bench.step(bench.lease_is("l1", node="n2"))
    assert written.states == {"l1": "failed"}
    assert written.sessions["l1"].outcome == "device_not_freed"
    # The command of the part that is not free stands until it is.
    assert written.ended == [("drain.commands", "l1/n2")]
    assert bench.step(bench.lease_is("l1", node="n1")).ended == [("drain.commands", "l1/n1")]


def test_an_open_session_is_published_every_ten_seconds_with_what_it_waits_for(kit: Any) -> None:
    bench = begun(kit)
    bench.step(bench.says("l1", "warned", blockers=("epoch 7 ends in 40 s",)))
    found = [written.sessions for written in bench.steps(90_000)]
    told = [bool(sessions) for sessions in found]
    assert all(any(pair) for pair in pairwise(told))
    named = {sessions["l1"].blockers for sessions in found if sessions}
    assert named == {("n1: epoch 7 ends in 40 s",)}


def test_a_cancel_is_asked_of_the_agent_and_accepted_by_it(kit: Any) -> None:
    bench = begun(kit)
    written = bench.step(bench.stay("l1"))
    assert written.told == {"l1/n1": "cancel"}
    written = bench.step(bench.says("l1", "cancelled"))
    assert written.states == {"l1": "cancelled"}
    assert written.notices == [("drain_cancelled", "l1")]
    assert written.ended == [("drain.commands", "l1/n1")]


def test_a_cancelled_drain_stays_cancelled_whatever_comes_after_it(kit: Any) -> None:
    bench = begun(kit)
    bench.step(bench.stay("l1"))
    bench.step(bench.says("l1", "cancelled"))
    for state in ("warned", "terminating", "failed"):
        written = bench.step(bench.says("l1", state))
        assert (written.events, written.ended) == ([], [])
    written = bench.step(bench.lease_is("l1"))
    assert (written.events, written.ended) == ([], [])
    for written in bench.steps(400_000):
        assert written.events == []


def test_a_cancel_that_comes_too_late_is_refused_and_the_drain_goes_on(kit: Any) -> None:
    bench = begun(kit)
    bench.step(bench.says("l1", "terminating"))
    written = bench.step(bench.stay("l1"))
    assert written.told == {"l1/n1": "cancel"}
    written = bench.step(bench.says("l1", "terminating", outcome="cancel_rejected"))
    assert bench.step(bench.stay("l1")).told == {}
    written = bench.step(bench.lease_is("l1"))
    assert written.states == {"l1": "freed"}
    assert written.sessions["l1"].outcome == "cancel_rejected"


def test_the_cancel_of_a_gang_is_confirmed_when_all_its_parts_hold_still(kit: Any) -> None:
    bench = begun(kit, "n1", "n2")
    assert bench.step(bench.stay("l1")).told == {"l1/n1": "cancel", "l1/n2": "cancel"}
    written = bench.step(bench.says("l1", "cancelling", node="n1"))
    assert written.told == {}
    assert written.sessions["l1"].blockers == (
        "n1: holds still until all parts of its gang do",
        "n2: its agent has not answered yet",
    )
    written = bench.step(bench.says("l1", "cancelling", node="n2"))
    assert written.told == {"l1/n1": "confirm", "l1/n2": "confirm"}
    assert written.states == {"l1": "cancelled"}
    assert bench.step(bench.says("l1", "cancelled", node="n1")).ended == [
        ("drain.commands", "l1/n1")
    ]


@pytest.mark.parametrize("late", ["terminating", "freed", "lost"])
def test_a_gang_of_which_one_part_is_too_far_is_told_to_go_on(kit: Any, late: str) -> None:
    bench = begun(kit, "n1", "n2")
    bench.step(bench.stay("l1"))
    bench.step(bench.says("l1", "cancelling", node="n1"))
    if late == "terminating":
        written = bench.step(bench.says("l1", "terminating", node="n2", outcome="cancel_rejected"))
    elif late == "freed":
        written = bench.step(bench.lease_is("l1", node="n2"))
    else:
        written = bench.step(kit.node("n2", lost=True))
    assert written.told["l1/n1"] == "resume"
    assert written.sessions["l1"].outcome == "cancel_rejected"
    assert "confirm" not in written.told.values()


def test_the_deadline_tells_a_gang_that_holds_still_to_go_on(kit: Any) -> None:
    bench = begun(kit, "n1", "n2")
    bench.step(bench.stay("l1"))
    bench.step(bench.says("l1", "cancelling", node="n1"))
    while bench.now_ms < kit.START_MS + 105_000:
        bench.step()
    written = bench.step()
    assert written.told == {"l1/n1": "resume", "l1/n2": "resume"}
    assert written.states == {"l1": "failed"}


def test_what_was_never_begun_is_called_off_so_that_agents_say_it_stays(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.terms(disruption_ppm=1), kit.node("n1"), *kit.lease("l0"), *kit.lease("l1"))
    bench.step(bench.vacate("l0"), bench.vacate("l1"))
    bench.step(kit.node("n2"), *kit.lease("g", "n1", "n2"), bench.vacate("g"))
    written = bench.step(bench.stay("l1"), bench.stay("g"))
    assert {k: v for k, v in written.states.items() if k != "l0"} == {
        "g": "cancelled",
        "l1": "cancelled",
    }
    assert written.told == {"g/n1": "confirm", "g/n2": "confirm", "l1/n1": "cancel"}
    assert written.notices == []
    assert bench.step(bench.says("l1", "cancelled")).ended == [("drain.commands", "l1/n1")]


def test_a_cancel_ends_one_session_and_the_next_one_begins_with_another_id(kit: Any) -> None:
    """O21: unhealthy, healthy, unhealthy again while the first drain is still being called off."""
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(bench.vacate("l1", "device_withdrawn"))
    first = bench.session_of["l1"]
    bench.step(bench.stay("l1"))
    assert bench.step(bench.vacate("l1", "device_withdrawn")).told == {}

    written = bench.step(bench.says("l1", "cancelled", session=first))
    second = bench.session_of["l1"]
    assert second != first
    states = {e.session: e.state for e in written.of(DrainSessionChanged)}
    assert states == {first: "cancelled", second: "warned"}
    assert written.commands == {"l1/n1": ("drain", second)}
    # A late word of the first one is no word of the second.
    assert bench.step(bench.says("l1", "cancelled", session=first)).ended == []
    assert bench.step(bench.lease_is("l1")).states == {"l1": "freed"}


def test_unhealthy_healthy_unhealthy_within_one_step_drains_once(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    written = bench.step(
        bench.vacate("l1", "device_withdrawn"),
        bench.stay("l1"),
        bench.vacate("l1", "device_withdrawn"),
    )
    sessions = written.of(DrainSessionChanged)
    assert sorted(e.state for e in sessions) == ["cancelled", "warned"]
    assert written.told == {"l1/n1": "drain"}
    assert written.notices == [("drain_warning", "l1")]


def test_a_job_that_ends_by_itself_while_it_waits_was_never_drained(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.terms(disruption_ppm=1), kit.node("n1"), *kit.lease("l0"), *kit.lease("l1"))
    bench.step(bench.vacate("l0"), bench.vacate("l1"))
    written = bench.step(bench.lease_is("l1"), *kit.lease_ends("l1"))
    assert written.states == {"l1": "freed"}
    assert written.notices == []
    assert written.told == {}


def test_a_lease_whose_record_is_ended_is_gone_whatever_its_agent_says(kit: Any) -> None:
    bench = begun(kit)
    written = bench.step(*kit.lease_ends("l1"))
    assert written.states == {"l1": "freed"}
    assert ("drain.commands", "l1/n1") in written.ended


def test_an_ended_session_is_forgotten_an_hour_later(kit: Any) -> None:
    bench = begun(kit, interval_ms=60_000)
    bench.step(bench.lease_is("l1"), *kit.lease_ends("l1"))
    ended_ms = bench.now_ms
    while ("drain.sessions", bench.session_of["l1"]) not in bench.step().ended:
        assert bench.now_ms < ended_ms + 3_600_000
    assert bench.now_ms == ended_ms + 3_600_000


def test_a_session_that_failed_is_kept_until_its_lease_is_free(kit: Any) -> None:
    bench = begun(kit, interval_ms=60_000)
    for written in bench.steps(3 * 3_600_000):
        assert ("drain.sessions", bench.session_of["l1"]) not in written.ended
        assert ("drain.commands", "l1/n1") not in written.ended
    written = bench.step(bench.lease_is("l1"))
    assert ("drain.commands", "l1/n1") in written.ended
    assert ("drain.sessions", bench.session_of["l1"]) in written.ended


@pytest.mark.parametrize("crash", [False, True], ids=["whole", "crashing"])
def test_the_last_session_of_a_lease_that_stays_is_kept_as_long_and_older_ones_are_not(
    kit: Any, crash: bool
) -> None:
    bench = begun(kit, interval_ms=60_000, crash=crash)
    bench.step(bench.stay("l1"))
    bench.step(bench.says("l1", "cancelled"))
    first = bench.session_of["l1"]
    for written in bench.steps(2 * 3_600_000):
        assert written.ended == []
    assert ("drain.sessions", first) in bench.step(bench.vacate("l1")).ended
    bench.step(bench.stay("l1"))
    bench.step(bench.says("l1", "cancelled"))
    assert bench.session_of["l1"] != first
    for written in bench.steps(4 * 3_600_000):
        assert ("drain.sessions", bench.session_of["l1"]) not in written.ended
    assert ("drain.sessions", bench.session_of["l1"]) in bench.step(*kit.lease_ends("l1")).ended


def test_a_vacate_of_a_lease_that_is_not_there_opens_nothing(kit: Any) -> None:
    bench = kit.bench()
    assert bench.step(bench.vacate("l9")).events == []
    assert bench.step(kit.node("n1"), *kit.lease("l9")).states == {}
