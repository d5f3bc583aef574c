"""Nodes that are emptied for maintenance, and nodes that fall silent (R15, R16)."""

from typing import Any

import pytest


def test_a_node_is_emptied_by_asking_all_that_runs_there(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1"),
        kit.node("n2"),
        *kit.lease("l1"),
        *kit.lease("g", "n1", "n2"),
        *kit.lease("elsewhere", "n2"),
    )
    written = bench.step(kit.node("n1", state="draining"))
    assert written.requests == {"g": "maintenance", "l1": "maintenance"}
    assert (written.nodes["n1"].state, written.nodes["n1"].leases) == ("draining", 2)
    assert written.nodes["n1"].blockers == ("g of team t1", "l1 of team t1")
    assert written.nodes["n1"].deadline_ms == bench.now_ms + 3_600_000

    bench.step(bench.vacate("l1", "maintenance"), bench.vacate("g", "maintenance"))
    bench.step(bench.lease_is("l1"), *kit.lease_ends("l1"))
    written = bench.step(*kit.lease_ends("g", "n1", "n2"))
    assert (written.nodes["n1"].state, written.nodes["n1"].leases) == ("drained", 0)
    assert bench.step().nodes == {}
    assert ("drain.sessions", "node/n1") in bench.step(kit.node("n1")).ended


def test_a_node_that_is_not_urgent_waits_for_who_cannot_be_drained_and_names_them(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"), *kit.lease("l2", drainability="none", team="ads"))
    written = bench.step(kit.node("n1", state="draining"))
    assert written.requests == {}
    assert written.nodes["n1"].state == "blocked"
    assert written.nodes["n1"].blockers == ("l2 of team ads declares that it cannot be drained",)
    written = bench.step(*kit.lease_ends("l2"))
    assert written.requests == {"l1": "maintenance"}
    assert written.nodes["n1"].state == "draining"


def test_an_urgent_node_asks_everybody(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"), *kit.lease("l2", drainability="none"))
    bench.step(kit.node("n1", state="draining"))
    written = bench.step(kit.node("n1", state="draining", urgent=True))
    assert written.requests == {"l1": "maintenance", "l2": "maintenance"}


def test_unhealthy_work_does_not_stand_in_the_way_of_maintenance(kit: Any) -> None:
    """R15: what is broken already never blocks a drain."""
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"), *kit.lease("l2", drainability="none"))
    assert bench.step(kit.node("n1", state="draining")).requests == {}
    written = bench.step(bench.lease_is("l2", "stuck"))
    assert written.requests == {"l1": "maintenance", "l2": "maintenance"}


def test_a_node_beyond_its_deadline_is_stuck_and_its_teams_are_told_once(kit: Any) -> None:
    """R16."""
    bench = kit.bench()
    bench.step(
        kit.node("n1"),
        *kit.lease("l1", team="ads", drainability="none"),
        *kit.lease("l2", team="vision"),
    )
    bench.step(kit.node("n1", state="draining", within_ms=60_000))
    deadline_ms = bench.now_ms + 60_000
    found = []
    while bench.now_ms < deadline_ms + 60_000:
        written = bench.step()
        found += [(bench.now_ms, n.state.value) for n in written.nodes.values()]
        if written.notices:
            assert written.notices == [("drain_escalated", None)] * 2
            assert bench.now_ms == deadline_ms + 5_000
    assert found == [(deadline_ms + 5_000, "stuck")]
    assert len(bench.notified) == len(set(bench.notified))
    assert bench.step(*kit.lease_ends("l1"), *kit.lease_ends("l2")).nodes["n1"].state == "drained"


def test_a_deadline_that_is_set_later_is_later(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1", drainability="none"))
    first = bench.step(kit.node("n1", state="draining", within_ms=60_000)).nodes["n1"]
    second = bench.step(kit.node("n1", state="draining", within_ms=90_000)).nodes["n1"]
    assert second.deadline_ms == first.deadline_ms + 30_000


def test_maintenance_that_is_called_off_takes_its_requests_and_its_drains_back(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"), *kit.lease("l2"))
    bench.step(kit.node("n1", state="draining"))
    bench.step(bench.vacate("l1", "maintenance"))
    written = bench.step(kit.node("n1"))
    assert written.requests == {"l1": "-maintenance", "l2": "-maintenance"}
    # And once more: the first drain is still being called off.
    written = bench.step(kit.node("n1", state="draining"))
    assert written.requests == {"l1": "maintenance", "l2": "maintenance"}


def test_a_new_maintenance_asks_again_whom_the_last_one_let_stay(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(kit.node("n1", state="draining"))
    bench.step(bench.vacate("l1", "maintenance"))
    bench.step(kit.node("n1"), bench.stay("l1"))
    bench.step(bench.says("l1", "cancelled"))
    assert bench.step(kit.node("n1", state="draining")).requests == {"l1": "maintenance"}


def test_a_node_that_is_off_is_emptied_only_if_something_runs_there(kit: Any) -> None:
    bench = kit.bench()
    written = bench.step(
        kit.node("n1", state="off"), kit.node("n2", state="off"), *kit.lease("l1", "n2")
    )
    assert sorted(written.nodes) == ["n2"]
    assert written.requests == {"l1": "maintenance"}


def test_a_silent_node_is_named_and_its_teams_are_told(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1"), *kit.lease("l1"), *kit.lease("l2", team="t2"), *kit.lease("l3", team="t2")
    )
    bench.step(bench.vacate("l1"))
    bench.step(bench.says("l1", "warned"))
    written = bench.step(kit.node("n1", lost=True))
    assert written.notices == [("node_lost", None)] * 2
    assert written.sessions["l1"].blockers == ("n1: its agent is silent",)
    assert bench.step().notices == []
    written = bench.step(kit.node("n1"))
    assert written.sessions["l1"].blockers == ()


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_session_on_a_lost_node_fails_as_agent_lost_unless_it_comes_back_in_time(
    kit: Any, comes_back: bool
) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(bench.vacate("l1"))
    bench.step(bench.says("l1", "warned"))
    bench.step(kit.node("n1", lost=True))
    if comes_back:
        bench.step(kit.node("n1"), bench.says("l1", "terminating"))
        assert bench.step(bench.lease_is("l1")).states == {"l1": "freed"}
        return
    ended = [s for w in bench.steps(115_000) for s in w.sessions.values() if s.state == "failed"]
    assert [s.outcome for s in ended] == ["agent_lost"]


def test_a_drain_that_is_asked_of_a_lost_node_begins_at_once(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), kit.node("n2"), *kit.lease("l0"), *kit.lease("l1", "n2"))
    bench.step(bench.vacate("l0"), kit.node("n2", lost=True))
    assert bench.step(bench.vacate("l1")).states == {"l1": "warned"}
