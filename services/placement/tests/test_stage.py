"""Placement alone on a log: what it decides, case by case, and that a crash changes nothing."""

from typing import Any

import pytest

from walras_contracts.capacity import NodeState
from walras_contracts.demand import JobQueued
from walras_contracts.drains import VacateReason
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import JobState, JobStatusChanged, LeaseGranted, WorkClass
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output, tombstone

MINUTE_MS = 60_000


def test_quota_is_spent_in_queue_order_and_what_does_not_fit_is_passed_over(kit: Any) -> None:
    bench = kit.bench()
    written = bench.step(
        kit.node("n1", 8),
        kit.quota("t1", a=(4, 0, 5)),
        bench.job("j1", 3),
        bench.job("j2", 2),
        bench.job("j3", 1),
        bench.job("j4", 1),
    )

    assert sorted(kit.granted(written)) == ["j1", "j3"]
    assert bench.reasons() == {
        "j1": "",
        "j2": WaitReason.WAITING_FOR_QUOTA,
        "j3": "",
        "j4": WaitReason.WAITING_FOR_QUOTA,
    }


def test_a_limit_below_the_price_keeps_a_job_from_bought_but_not_from_opportunistic_quota(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 8),
        kit.quota("t1", a=(4, 1, 100)),
        bench.job("j1", 2, limit=99),
        bench.job("j2", 1, limit=99),
        bench.job("j3", 1, limit=100),
        bench.job("j4", 1, limit=0),
    )

    assert bench.statuses["j1"].reason == WaitReason.PRICE_ABOVE_LIMIT
    assert bench.statuses["j2"].work_class is WorkClass.OPPORTUNISTIC
    assert bench.statuses["j3"].work_class is WorkClass.MARKET
    assert bench.statuses["j4"].reason == WaitReason.WAITING_FOR_QUOTA


def test_a_job_takes_the_first_acceptable_type_with_quota_and_devices(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 1, "a"),
        kit.node("n2", 4, "b"),
        kit.quota("t1", a=(4, 0, 5), b=(4, 0, 5)),
        bench.job("j1", 2, types=("zz", "a", "b")),
        bench.job("j2", 1, types=("a", "b")),
    )

    assert bench.statuses["j1"].market == "b"
    assert bench.statuses["j2"].market == "a"


def test_the_reason_names_what_is_nearest_to_a_start(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 2, "a"),
        kit.quota("t1", a=(9, 0, 50)),
        kit.quota("t2", a=(9, 0, 50)),
        bench.job("busy", 1, team="t2"),
        bench.job("j1", 1, types=("zz",)),
        bench.job("j2", 3, types=("zz", "a")),
        bench.job("j3", 1, types=("a",), limit=49),
        bench.job("j4", 2, types=("zz", "a")),
        bench.job("j5", 1, types=("a",), team="t3"),
    )

    # t1 comes before t2 by id, so its two-device job is served before "busy".
    assert bench.reasons() == {
        "busy": WaitReason.WAITING_FOR_DEVICES,
        "j1": WaitReason.NO_SUCH_TYPE,
        "j2": WaitReason.EXCEEDS_SUPPLY,
        "j3": WaitReason.PRICE_ABOVE_LIMIT,
        "j4": "",
        "j5": WaitReason.WAITING_FOR_QUOTA,
    }


def test_bought_quota_of_every_team_goes_before_opportunistic_quota_of_any(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 1),
        kit.quota("t1", a=(0, 1, 5)),
        kit.quota("t2", a=(1, 0, 5)),
        bench.job("free", 1, team="t1"),
        bench.job("paid", 1, team="t2"),
    )

    assert bench.states() == {"free": "pending", "paid": "running"}


def test_a_gang_over_several_nodes_gets_all_parts_in_one_step(kit: Any) -> None:
    bench = kit.bench()
    written = bench.step(
        kit.node("n1", 2),
        kit.node("n2", 2),
        kit.node("n3", 2),
        kit.quota("t1", a=(5, 0, 5)),
        bench.job("j1", 5),
    )

    parts = [e for e in written if isinstance(e, LeaseGranted)]
    assert sorted(p.part for p in parts) == [0, 1, 2]
    assert {p.parts for p in parts} == {3}
    assert sum(p.size_macc for p in parts) == 5000


def test_lost_quota_turns_work_opportunistic_where_there_is_room_and_vacates_the_rest_once(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 8),
        kit.quota("t1", a=(4, 0, 5)),
        bench.job("j1", 1, limit=30),
        bench.job("j2", 1, limit=20),
        bench.job("j3", 1, limit=10),
    )
    written = bench.step(kit.quota("t1", a=(1, 1, 5)))

    # The lowest limits lose their bought quota; of the two, the higher one may stay for nothing.
    assert kit.vacates(written) == {"j3": VacateReason.QUOTA_LOST}
    assert bench.statuses["j1"].work_class is WorkClass.MARKET
    assert bench.statuses["j2"].work_class is WorkClass.OPPORTUNISTIC
    assert bench.statuses["j3"].state is JobState.DRAINING
    assert bench.leases["j2"]["n1"].work_class is WorkClass.OPPORTUNISTIC
    assert bench.step() == []


def test_an_opportunistic_job_is_promoted_when_its_team_has_bought_enough(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 2), kit.quota("t1", a=(0, 2, 5)), bench.job("j1", 2))
    written = bench.step(kit.quota("t1", a=(2, 0, 5)))

    assert kit.vacates(written) == {}
    assert bench.leases["j1"]["n1"].work_class is WorkClass.MARKET


def test_few_jobs_leave_and_of_them_those_that_have_done_least(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 16), kit.quota("t1", a=(11, 0, 5)), bench.job("big", 8), bench.job("old", 1)
    )
    bench.step(bench.job("young", 1), bench.job("younger", 1))

    assert kit.vacates(bench.step(kit.quota("t1", a=(10, 0, 5)))) == {
        "younger": VacateReason.QUOTA_LOST
    }
    assert kit.vacates(bench.step(kit.quota("t1", a=(5, 0, 5)))) == {"big": VacateReason.QUOTA_LOST}


def test_one_job_with_a_high_limit_leaves_before_two_with_low_ones(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 10),
        kit.quota("t1", a=(10, 0, 5)),
        bench.job("cheap", 1, limit=10),
        bench.job("cheaper", 1, limit=9),
        bench.job("large", 8, limit=20),
    )

    assert kit.vacates(bench.step(kit.quota("t1", a=(8, 0, 5)))) == {
        "large": VacateReason.QUOTA_LOST
    }


@pytest.mark.parametrize(
    ("minimum_run_ms", "price", "leaves"),
    [
        (0, 101, True),
        (120_000, 110, False),
        (120_000, 111, True),
        (60_000, 110, True),
    ],
)
def test_a_price_above_the_limit_ends_a_run_that_is_not_retained(
    kit: Any, minimum_run_ms: int, price: int, leaves: bool
) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 1),
        kit.quota("t1", a=(1, 0, 5)),
        bench.job("j1", 1, limit=100, minimum_run_ms=minimum_run_ms),
    )
    written = bench.step(kit.quota("t1", a=(1, 0, price)))

    assert kit.vacates(written) == ({"j1": VacateReason.PRICE_ABOVE_LIMIT} if leaves else {})


def test_a_finished_job_is_told_once_and_forgotten_with_its_queue_record(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    lease = bench.leases["j1"]["n1"]
    freed = bench.freed("j1")
    written = bench.step(*freed)

    assert [e.state for e in written if isinstance(e, JobStatusChanged)] == [JobState.FINISHED]
    assert [e.key for e in written if isinstance(e, Output)] == [lease.record_key()]
    assert bench.step(*freed) == [], "an agent that says it again changes nothing"
    written = bench.step(tombstone(JobQueued, "t1/j1", "t1"))
    assert [(e.topic, e.key) for e in written if isinstance(e, Output)] == [("job.status", "t1/j1")]
    assert state_digest_input(bench.log, "placement") == {}


def test_a_vacated_job_is_pending_again_with_what_is_left_of_it(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    first = bench.leases["j1"]["n1"]
    bench.step(kit.quota("t1", a=(0, 0, 5)))
    bench.step(*bench.freed("j1", "vacated", 480_000))
    assert bench.statuses["j1"].state is JobState.PENDING
    assert bench.statuses["j1"].remaining_run_ms == 480_000
    bench.step(kit.quota("t1", a=(1, 0, 5)))
    for _ in range(7):
        bench.step()
    assert bench.statuses["j1"].reason == WaitReason.HELD_BACK, "for ten cycles after the vacate"
    bench.step()

    again = bench.leases["j1"]["n1"]
    assert (again.attempt, again.remaining_run_ms) == (first.attempt + 1, 480_000)
    assert again.lease != first.lease
    assert bench.statuses["j1"].waited_ms == 9 * MINUTE_MS


def test_a_cancelled_job_ends_at_once_while_pending_and_after_its_drain_while_running(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1), bench.job("j2", 1)
    )
    written = bench.step(bench.job("j1", 1, cancelled=True), bench.job("j2", 1, cancelled=True))

    assert kit.vacates(written) == {"j1": VacateReason.CANCELLED}
    assert bench.states() == {"j1": "draining", "j2": "cancelled"}
    bench.step(*bench.freed("j1", "vacated", 1))
    assert bench.states() == {"j1": "cancelled", "j2": "cancelled"}


def test_a_draining_job_that_finishes_in_time_is_finished_though_cancelled(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    bench.step(bench.job("j1", 1, cancelled=True))
    bench.step(*bench.freed("j1"))

    assert bench.states() == {"j1": "finished"}


def test_a_job_on_a_withdrawn_device_leaves_and_its_device_is_not_given_again(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    assert kit.vacates(bench.step(kit.node("n1", 1, state=NodeState.WITHHELD))) == {
        "j1": VacateReason.DEVICE_WITHDRAWN
    }
    written = bench.step(*bench.freed("j1", "vacated", 5))

    assert kit.granted(written) == []
    assert bench.statuses["j1"].reason == WaitReason.NO_SUCH_TYPE


@pytest.mark.parametrize(
    "changed", [{"kind": "b"}, {"macc_per_device": 500}], ids=["another-type", "another-size"]
)
def test_a_job_on_a_node_that_is_something_else_now_leaves(
    kit: Any, changed: dict[str, Any]
) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1))

    assert kit.vacates(bench.step(kit.node("n1", 1, **changed))) == {
        "j1": VacateReason.DEVICE_WITHDRAWN
    }
    assert kit.granted(bench.step(kit.node("n1", 1), kit.quota("t1", a=(4, 4, 5)))) == [], (
        "not freed yet"
    )
    assert kit.granted(bench.step(*bench.freed("j1", "vacated", 5))) == ["j1"]


def test_small_jobs_use_quota_by_the_whole_devices_that_they_hold(kit: Any) -> None:
    bench = kit.bench()
    jobs = [bench.job(f"j{number}", 0, size_macc=1) for number in range(8)]
    bench.step(kit.node("n1", 8), kit.quota("t1", a=(2, 1, 5)), *jobs)

    held = {name: part["n1"] for name, part in bench.leases.items()}
    assert {name: part.size_macc for name, part in held.items()} == {
        "j0": 1000,
        "j1": 1000,
        "j2": 1000,
    }
    assert held["j2"].work_class is WorkClass.OPPORTUNISTIC
    # What a job needs and holds is on record, so that the auction can count it.
    assert {status.needed_macc for status in bench.statuses.values()} == {1000}
    assert bench.statuses["j3"].reason == WaitReason.WAITING_FOR_QUOTA
    assert kit.vacates(bench.step(kit.quota("t1", a=(1, 1, 5)))) == {"j2": VacateReason.QUOTA_LOST}


@pytest.mark.parametrize("bought", [True, False])
def test_a_job_whose_devices_exceed_its_quota_leaves_them_to_others(kit: Any, bought: bool) -> None:
    def quota(team: str, devices: int) -> Output:
        output: Output = kit.quota(team, a=(devices, 0, 5) if bought else (0, devices, 5))
        return output

    bench = kit.bench()
    bench.step(
        kit.node("n1", 2, macc_per_device=800),
        quota("t1", 1),
        quota("t2", 2),
        bench.job("j1", 1),
        bench.job("j2", 1, team="t2"),
    )

    assert bench.states() == {"j1": "pending", "j2": "running"}
    assert bench.statuses["j1"].reason == WaitReason.WAITING_FOR_QUOTA
    assert (bench.statuses["j1"].needed_macc, bench.statuses["j1"].available_macc) == (1600, 1000)


def test_a_changed_limit_reaches_the_lease_that_runs(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1, limit=9))
    bench.step(bench.job("j1", 1, limit=7))

    assert bench.leases["j1"]["n1"].limit_micro == 7


def test_a_team_that_moves_takes_its_running_and_leaving_leases_to_its_new_pool_once(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 2), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 1), bench.job("j2", 1)
    )
    bench.step(bench.job("j2", 1, cancelled=True))
    written = bench.step(bench.job("j1", 1, pool="q"), bench.job("j2", 1, pool="q", cancelled=True))

    assert sorted(kit.granted(written)) == ["j1", "j2"]
    assert {part["n1"].pool for part in bench.leases.values()} == {"q"}
    assert kit.granted(bench.step(bench.job("j1", 1, pool="q"))) == []


@pytest.mark.parametrize("crash", [False, True])
def test_the_retention_gap_is_that_of_the_platform_document_in_force(kit: Any, crash: bool) -> None:
    bench = kit.bench(crash=crash)
    bench.step(
        kit.gap(1, 0, 300_000),
        kit.gap(2, 3, 200_000),
        kit.node("n1", 1),
        kit.quota("t1", a=(1, 0, 5)),
        bench.job("j1", 1, limit=100, minimum_run_ms=600_000),
    )
    assert kit.vacates(bench.step(kit.quota("t1", a=(1, 0, 130)))) == {}
    assert kit.vacates(bench.step()) == {}
    assert kit.vacates(bench.step()) == {"j1": VacateReason.PRICE_ABOVE_LIMIT}


def test_two_teams_may_use_the_same_job_id(kit: Any) -> None:
    bench = kit.bench()
    written = bench.step(
        kit.node("n1", 2),
        kit.quota("t1", a=(1, 0, 5)),
        kit.quota("t2", a=(1, 0, 5)),
        bench.job("same", 1, team="t1"),
        bench.job("same", 1, team="t2"),
    )

    assert len({e.lease for e in written if isinstance(e, LeaseGranted)}) == 2
