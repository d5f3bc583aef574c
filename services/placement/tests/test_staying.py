"""A vacate that is taken back, and drains that the drain service asks for."""

from typing import Any

import pytest

from walras_contracts.capacity import NodeState
from walras_contracts.drains import VacateReason
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import DrainState, JobState, WorkClass

MINUTE_MS = 60_000


@pytest.fixture
def leaving(kit: Any) -> Any:
    """A bench with a job of two devices that lost its quota."""
    bench = kit.bench()
    bench.step(kit.node("n1", 4), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    assert kit.vacates(bench.step(kit.quota("t1", a=(0, 0, 5)))) == {"j1": VacateReason.QUOTA_LOST}
    return bench


def test_quota_that_is_back_before_the_drain_began_lets_the_job_run_on(
    kit: Any, leaving: Any
) -> None:
    written = leaving.step(kit.quota("t1", a=(2, 0, 5)))

    assert kit.withdrawn(written) == ["j1"]
    status = leaving.statuses["j1"]
    assert (status.state, status.work_class) == (JobState.RUNNING, WorkClass.MARKET)
    assert leaving.step() == []


def test_a_drain_that_has_begun_is_over_when_its_agent_says_so(kit: Any, leaving: Any) -> None:
    leaving.step(leaving.drained("j1", DrainState.WARNED))
    written = leaving.step(kit.quota("t1", a=(2, 0, 5)))
    assert kit.withdrawn(written) == ["j1"]
    assert leaving.states()["j1"] == "draining"
    # Its quota is its own meanwhile.
    assert kit.granted(leaving.step(leaving.job("j2", 2))) == []
    leaving.step(leaving.drained("j1", DrainState.CANCELLED))
    assert leaving.states()["j1"] == "running"


def test_a_gang_runs_on_when_all_of_its_agents_say_so(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 2), kit.node("n2", 2), kit.quota("t1", a=(4, 0, 5)), bench.job("j1", 4)
    )
    bench.step(kit.quota("t1", a=(0, 0, 5)))
    bench.step(*(bench.drained("j1", DrainState.WARNED, n) for n in ("n1", "n2")))
    bench.step(kit.quota("t1", a=(4, 0, 5)))
    bench.step(bench.drained("j1", DrainState.CANCELLED, "n2"))
    bench.step(bench.drained("j1", DrainState.CANCELLING, "n1"))
    assert bench.states()["j1"] == "draining"
    bench.step(bench.drained("j1", DrainState.CANCELLED, "n1"))
    assert bench.states()["j1"] == "running"


@pytest.mark.parametrize(
    ("state", "outcome"),
    [(DrainState.WAITING, "cancel_rejected"), (DrainState.TERMINATING, "")],
)
def test_a_cancel_that_came_too_late_leaves_the_job_draining_for_good(
    kit: Any, leaving: Any, state: DrainState, outcome: str
) -> None:
    leaving.step(leaving.drained("j1", DrainState.WARNED))
    leaving.step(kit.quota("t1", a=(2, 0, 5)))
    leaving.step(leaving.drained("j1", state, outcome=outcome))
    assert leaving.states()["j1"] == "draining"
    for _ in range(3):
        assert kit.withdrawn(leaving.step()) == [], "not tried again"
    # Its quota is for others now.
    assert kit.granted(leaving.step(leaving.job("j2", 2))) == ["j2"]


def test_a_job_that_was_let_stay_at_once_goes_on_draining_when_its_agent_was_too_far(
    kit: Any, leaving: Any
) -> None:
    leaving.step(kit.quota("t1", a=(2, 0, 5)))
    assert leaving.states()["j1"] == "running"
    leaving.step(leaving.drained("j1", DrainState.TERMINATING, outcome="cancel_rejected"))
    assert leaving.states()["j1"] == "draining"
    leaving.step(*leaving.freed("j1", "vacated", 5))
    assert leaving.statuses["j1"].reason == WaitReason.HELD_BACK, "it was evicted after all"


def test_a_late_word_of_a_drain_that_is_cancelled_changes_nothing(kit: Any, leaving: Any) -> None:
    leaving.step(kit.quota("t1", a=(2, 0, 5)))
    leaving.step(leaving.drained("j1", DrainState.WARNED))
    assert leaving.states()["j1"] == "running"
    leaving.step(leaving.drained("j1", DrainState.CANCELLED))
    assert leaving.states()["j1"] == "running"
    assert kit.withdrawn(leaving.step(kit.quota("t1", a=(0, 0, 5)))) == []
    assert kit.withdrawn(leaving.step(kit.quota("t1", a=(2, 0, 5)))) == ["j1"]
    assert leaving.states()["j1"] == "running"


def test_quota_that_is_lost_again_before_the_agents_agreed_is_a_new_vacate(
    kit: Any, leaving: Any
) -> None:
    leaving.step(leaving.drained("j1", DrainState.WARNED))
    leaving.step(kit.quota("t1", a=(2, 0, 5)))
    assert kit.vacates(leaving.step(kit.quota("t1", a=(1, 0, 5)))) == {
        "j1": VacateReason.QUOTA_LOST
    }
    leaving.step(leaving.drained("j1", DrainState.CANCELLED))
    assert leaving.states()["j1"] == "draining"


def test_a_job_does_not_stay_while_a_claim_with_quota_waits_for_its_devices(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 2), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    bench.step(
        kit.quota("t1", a=(0, 0, 5)), kit.quota("t2", a=(2, 0, 5)), bench.job("c", 2, team="t2")
    )
    assert kit.withdrawn(bench.step(kit.quota("t1", a=(2, 0, 5)))) == []
    # The claim loses its quota: nobody needs the devices any more.
    assert kit.withdrawn(bench.step(kit.quota("t2", a=(0, 0, 5)))) == ["j1"]


def test_a_claim_that_comes_in_the_same_step_and_finds_no_other_devices_goes_first(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 2), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    bench.step(kit.quota("t1", a=(0, 0, 5)))
    written = bench.step(
        kit.quota("t1", a=(2, 0, 5)), kit.quota("t2", a=(2, 0, 5)), bench.job("c", 2, team="t2")
    )
    assert kit.withdrawn(written) == []
    assert kit.granted(bench.step(*bench.freed("j1", "vacated", 5))) == ["c"]


def test_what_a_claim_leaves_of_a_job_that_may_not_stay_is_for_the_next_claim(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 4), kit.quota("t1", a=(4, 0, 5)), bench.job("j1", 4))
    bench.step(kit.quota("t1", a=(0, 0, 5)))
    bench.step(
        kit.quota("t1", a=(4, 0, 5)),
        *(kit.quota(team, a=(2, 0, 5)) for team in ("t2", "t3")),
        *(bench.job(f"c-{team}", 2, team=team) for team in ("t2", "t3")),
    )
    assert sorted(bench.state.reservations) == ["t2/c-t2", "t3/c-t3"]


def test_a_claim_that_finds_other_devices_lets_the_job_stay(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 4), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    bench.step(kit.quota("t1", a=(0, 0, 5)))
    written = bench.step(
        kit.quota("t1", a=(2, 0, 5)), kit.quota("t2", a=(2, 0, 5)), bench.job("c", 2, team="t2")
    )
    assert (kit.withdrawn(written), kit.granted(written)) == (["j1"], ["c"])


def test_a_job_that_is_to_stay_leaves_after_all_when_its_minimum_run_time_is_over(
    kit: Any,
) -> None:
    """Nothing else happens in that step: its agents have not spoken yet."""
    bench = kit.bench()
    job = bench.job("j1", 2, limit=10, minimum_run_ms=5 * MINUTE_MS)
    bench.step(kit.node("n1", 2), kit.quota("t1", a=(2, 0, 5)), job)
    bench.step(kit.quota("t1", a=(0, 0, 5)))
    bench.step(bench.drained("j1", DrainState.WARNED))
    assert kit.withdrawn(bench.step(kit.quota("t1", a=(2, 0, 11)))) == ["j1"]
    assert kit.vacates(bench.step()) == {}
    assert kit.vacates(bench.step()) == {"j1": VacateReason.PRICE_ABOVE_LIMIT}


@pytest.mark.parametrize("why", ["cancelled", "price", "device"])
def test_what_must_leave_for_another_reason_does_not_stay(kit: Any, leaving: Any, why: str) -> None:
    changed = {
        "cancelled": [leaving.job("j1", 2, cancelled=True), kit.quota("t1", a=(2, 0, 5))],
        "price": [leaving.job("j1", 2, limit=4), kit.quota("t1", a=(2, 0, 5))],
        "device": [kit.node("n1", 4, state=NodeState.WITHHELD), kit.quota("t1", a=(2, 0, 5))],
    }[why]
    assert kit.withdrawn(leaving.step(*changed)) == []


def test_opportunistic_work_stays_when_there_is_room_for_it_again(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 2), kit.quota("t1", a=(0, 2, 5)), bench.job("j1", 2))
    bench.step(kit.quota("t1", a=(0, 1, 5)))
    assert kit.withdrawn(bench.step(kit.quota("t1", a=(0, 2, 5)))) == ["j1"]


def test_a_request_is_answered_one_step_later_with_its_reason_and_once(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 2), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    assert kit.vacates(bench.step(bench.request("j1", VacateReason.MAINTENANCE))) == {}
    assert kit.vacates(bench.step()) == {"j1": VacateReason.MAINTENANCE}
    assert kit.vacates(bench.step()) == {}


@pytest.mark.parametrize("crash", [False, True])
def test_a_request_that_is_cancelled_lets_the_job_stay(kit: Any, crash: bool) -> None:
    bench = kit.bench(crash=crash)
    bench.step(kit.node("n1", 2), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    bench.step(bench.request("j1", VacateReason.LOW_USE))
    bench.step(bench.request("j1", VacateReason.LOW_USE, cancel=True))
    assert kit.withdrawn(bench.step()) == ["j1"]
    assert bench.states()["j1"] == "running"


def test_a_request_that_is_cancelled_before_it_was_answered_was_never_there(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 2), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    bench.step(
        bench.request("j1", VacateReason.LOW_USE),
        bench.request("j1", VacateReason.LOW_USE, cancel=True),
    )
    assert bench.step() == []


def test_a_job_whose_request_goes_on_does_not_stay_for_quota(kit: Any, leaving: Any) -> None:
    leaving.step(leaving.request("j1", VacateReason.MAINTENANCE))
    leaving.step()
    assert kit.withdrawn(leaving.step(kit.quota("t1", a=(2, 0, 5)))) == []
    leaving.step(leaving.request("j1", VacateReason.MAINTENANCE, cancel=True))
    assert kit.withdrawn(leaving.step()) == ["j1"]


def test_a_job_that_moves_for_maintenance_starts_again_elsewhere_at_once(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 2), kit.node("n2", 2), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2)
    )
    bench.step(kit.node("n1", 2, state=NodeState.DRAINING))
    assert bench.states()["j1"] == "running", "the drain service decides when"
    bench.step(bench.request("j1", VacateReason.MAINTENANCE))
    bench.step()
    bench.step(*bench.freed("j1", "vacated", 5))
    assert list(bench.leases["j1"]) == ["n2"]


@pytest.mark.parametrize("state", [NodeState.DRAINING, NodeState.OFF])
def test_nothing_starts_on_a_node_that_is_to_be_emptied_or_off(kit: Any, state: NodeState) -> None:
    bench = kit.bench()
    written = bench.step(
        kit.node("n1", 2, state=state), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2)
    )
    assert kit.granted(written) == []
    assert bench.statuses["j1"].reason == WaitReason.NO_SUCH_TYPE
