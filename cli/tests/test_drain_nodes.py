"""`walras drain NODE` states a node once more in another state, and follows what becomes of it."""

from argparse import Namespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.tests.jobs_events import HOUR_MS, NOW_MS, lease, node, node_drain, observed, session
from cli.tests.test_drain_jobs import answers, put
from walras.drain.node_statement import Goal, NodeNow, counts_from_ms, statement
from walras.drain.progress import End, Outcome
from walras.drain_command import drain_node, goal_of
from walras.jobs_log import Fault, JobsLogError
from walras.jobs_log.testing import MemoryLog
from walras_capacity.core import counts_from_ms as capacity_counts_from_ms
from walras_contracts.capacity import NodeObserved, NodeState
from walras_contracts.drains import NodeDrainChanged

FLAGS = {
    "cancel": False,
    "off": False,
    "on": False,
    "urgent": False,
    "fence": False,
    "force": False,
    "within": None,
    "no_wait": False,
    "timeout_s": None,
}


def log_of(*events: Any) -> MemoryLog:
    log = MemoryLog()
    log.put(observed(domain="d-1", owner_pool="p", drain_within_ms=7), *events)
    log.pass_barrier(NOW_MS)
    return log


def drain(log: MemoryLog, within_ms: int | None = None, **flags: Any) -> tuple[End, dict[str, Any]]:
    arguments = Namespace(**(FLAGS | flags | {"within": within_ms}))
    return drain_node(log, "n-1", goal_of(arguments), within_ms, arguments)


def stated(log: MemoryLog) -> NodeObserved:
    (item,) = log.written
    assert isinstance(item.event, NodeObserved)
    return item.event


def test_a_drain_states_the_last_observation_as_draining_and_follows_to_drained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = log_of(node(), lease())
    answers(
        log,
        put(),
        put(node(state="draining")),
        put(node_drain("draining", blockers=("l-1 of team t",))),
        put(session("terminating", blockers=("n-1: pid 5",))),
        put(node_drain("drained", leases=0)),
    )
    end, document = drain(log)
    assert end.outcome is Outcome.DONE
    assert "drained; `walras drain n-1 --off` switches it off" in end.words
    assert stated(log) == observed(
        domain="d-1", owner_pool="p", drain_within_ms=7, state="draining"
    ), "all else as it was"
    assert document["counts_from_ms"] == NOW_MS + HOUR_MS
    told = capsys.readouterr().err
    assert "n-1: stated as draining, counts from 2027-01-15T09:00:00Z on" in told
    assert "n-1: draining counts from the full hour, 2027-01-15T09:00:00Z, on" in told
    assert "waits for l-1 of team t" in told
    assert "t/j terminating (n-1: pid 5)" in told


def test_an_urgent_drain_counts_at_once_and_is_told_from_one_that_waits() -> None:
    log = log_of(node(state="draining"), node_drain("blocked", blockers=("l-1 cannot",)))
    answers(
        log, put(), put(node(state="draining", urgent=True)), put(node_drain("drained", leases=0))
    )
    end, document = drain(log, urgent=True)
    assert (end.outcome, document["counts_from_ms"]) == (Outcome.DONE, None)
    assert stated(log).urgent


def test_a_blocked_node_says_who_blocks_and_what_would_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = log_of(node(state="draining"))
    blockers = ("l-1 of team t declares that it cannot be drained",)
    answers(log, put(node_drain("blocked", blockers=blockers)), put(node_drain("stuck")))
    end, _ = drain(log)
    assert end.outcome is Outcome.OTHERWISE
    assert "beyond its deadline of 2027-01-15T09:00:00Z, it goes on" in end.words
    told = capsys.readouterr().err
    assert "nobody is asked to leave while one cannot (--urgent asks all)" in told
    assert blockers[0] in told


def test_what_somebody_else_states_since_ends_the_waiting() -> None:
    log = log_of(node())
    answers(log, put(node(state="draining")), put(node(state="active")))
    end, _ = drain(log)
    assert end.outcome is Outcome.OTHERWISE
    assert "somebody else stated since that it is active" in end.words


def test_an_emptying_of_before_is_not_taken_for_that_of_now() -> None:
    log = log_of(node(), node_drain("drained", leases=0))
    answers(log, put(), put(node(state="draining")))
    assert drain(log)[0].outcome is Outcome.DONE
    log = log_of(node(), node_drain("drained", leases=0))
    answers(
        log,
        lambda same: same.end(NodeDrainChanged, "node/n-1", "n-1"),
        put(node(state="draining")),
        put(node_drain("stuck")),
    )
    assert drain(log)[0].outcome is Outcome.OTHERWISE


def test_a_node_is_switched_off_only_when_it_is_drained() -> None:
    log = log_of(node(state="draining"), lease(), node_drain("draining"))
    with pytest.raises(JobsLogError, match=r"it is draining, 1 lease on it: t/j") as caught:
        drain(log, off=True)
    assert (caught.value.code, log.written) == (Fault.NOT_DRAINED, [])
    assert "--force" in caught.value.todo
    drained = log_of(node(state="draining"), node_drain("drained", leases=0))
    answers(drained, put(node(state="off")))
    end, document = drain(drained, off=True)
    assert (end.outcome, end.words) == (Outcome.DONE, "n-1: off")
    assert (stated(drained).state, document["counts_from_ms"]) == (NodeState.OFF, None)


def test_an_empty_node_that_is_in_service_is_not_drained() -> None:
    with pytest.raises(JobsLogError, match="no lease holds devices now"):
        drain(log_of(node()), off=True)
    with pytest.raises(JobsLogError, match="it is not told yet"):
        drain(log_of(), off=True)


@pytest.mark.parametrize(
    ("state", "drained", "held", "is_empty"),
    [
        ("draining", "drained", False, True),
        ("draining", "drained", True, False),
        ("draining", "draining", False, False),
        ("off", None, False, True),
        ("off", None, True, False),
        ("active", None, False, False),
    ],
)
def test_a_node_is_empty_when_nothing_runs_there_and_nothing_starts_there(
    state: str, drained: str | None, held: bool, is_empty: bool
) -> None:
    emptying = None if drained is None else node_drain(drained)
    now = NodeNow(observed(), node(state=state), emptying, (lease(),) if held else ())
    assert now.is_empty == is_empty


def test_force_switches_off_all_the_same_and_says_what_goes_on_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = log_of(node(), lease())
    answers(log, put(node(state="off")))
    assert drain(log, off=True, force=True)[0].outcome is Outcome.DONE
    assert (
        "what runs there goes on (1 lease: t/j) and is not asked to leave"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("flag", ["on", "cancel"])
def test_a_node_comes_back_into_service(flag: str) -> None:
    log = log_of(node(state="draining"))
    log.put(observed(state="draining", urgent=True, fenced=True))
    answers(log, put(node()))
    end, _ = drain(log, **{flag: True})
    assert (end.outcome, end.words) == (Outcome.DONE, "n-1: active")
    assert (stated(log).state, stated(log).urgent, stated(log).fenced) == ("active", False, False)


def test_a_fence_leaves_the_state_as_it_is_and_waits_until_it_holds() -> None:
    log = log_of(node(state="draining", urgent=True, lost=True, fenced_ms=5))
    log.put(observed(state="draining", urgent=True))
    answers(log, put(), put(node(state="draining", urgent=True, fenced_ms=NOW_MS)))
    end, document = drain(log, fence=True)
    assert (end.outcome, end.words) == (Outcome.DONE, "n-1: draining, fenced")
    assert document["published"]["fenced_ms"] == NOW_MS, "not that of before"
    wanted = observed(state="draining", urgent=True, fenced=True)
    assert stated(log) == wanted, "an urgent drain stays urgent"


def test_an_urgent_drain_that_is_asked_for_again_stays_urgent() -> None:
    log = log_of(node(state="draining", urgent=True))
    log.put(observed(state="draining", urgent=True))
    answers(log, put(node_drain("drained", leases=0)))
    assert drain(log)[0].outcome is Outcome.DONE
    assert log.written == []
    drain(log, within_ms=9, no_wait=True)
    assert stated(log).urgent


def test_a_drain_and_a_fence_go_together() -> None:
    log = log_of(node(lost=True))
    answers(
        log,
        put(node(state="draining", urgent=True), node_drain("drained", leases=0)),
        put(node(state="draining", urgent=True, fenced_ms=NOW_MS)),
    )
    end, document = drain(log, urgent=True, fence=True)
    assert (end.outcome, document["published"]["fenced_ms"]) == (Outcome.DONE, NOW_MS)
    assert stated(log).fenced


def test_what_is_stated_already_is_not_written_again_but_followed() -> None:
    log = log_of(node(state="draining"), observed(state="draining", observed_ms=1))
    answers(log, put(node_drain("drained", leases=0)))
    assert drain(log)[0].outcome is Outcome.DONE
    assert log.written == []


def test_how_long_it_may_take_is_stated_where_it_is_given() -> None:
    log = log_of(node())
    drain(log, within_ms=60_000, no_wait=True)
    assert stated(log).drain_within_ms == 60_000


def test_the_last_statement_about_the_node_itself_counts() -> None:
    log = log_of(node())
    log.put(observed(devices=4))
    for number in range(5):
        log.put(observed(f"other-{number}"))
    drain(log, no_wait=True)
    assert (stated(log).node, stated(log).devices) == ("n-1", 4)


def test_a_node_that_nobody_stated_or_that_is_gone_is_refused() -> None:
    with pytest.raises(JobsLogError, match="no node n-1 is in the inventory") as caught:
        drain(MemoryLog())
    assert caught.value.code is Fault.UNKNOWN_NODE
    log = log_of(observed(state="gone"))
    with pytest.raises(JobsLogError, match="node n-1 is gone") as caught:
        drain(log)
    assert caught.value.code is Fault.NODE_GONE


@given(
    st.sampled_from(list(NodeState)),
    st.sampled_from(list(Goal)),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3 * HOUR_MS),
)
def test_a_statement_changes_nothing_but_what_was_asked(
    state: NodeState, goal: Goal, urgent: bool, fence: bool, now_ms: int
) -> None:
    before = observed(state=state, domain="d", devices=3)
    now = NodeNow(before, None, None, ())
    wanted = statement(
        now, goal, urgent=urgent, fence=fence, force=True, within_ms=None, now_ms=now_ms
    )
    kept = {"state", "urgent", "fenced", "observed_ms"}
    assert wanted.model_dump(exclude=kept) == before.model_dump(exclude=kept)
    assert wanted.fenced == fence
    if goal is Goal.KEEP:
        assert (wanted.state, wanted.urgent) == (before.state, before.urgent)
    shown_ms = counts_from_ms(wanted, now_ms)
    # The next barrier is later than the last one; capacity says when a statement read there counts.
    assert shown_ms == (None if wanted.urgent else capacity_counts_from_ms(now_ms + 1))
