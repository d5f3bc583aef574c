"""Gangs: nothing starts before all parts are accepted, and none runs on without the others."""

from typing import Any

import pytest

from walras_contracts.demand import Drainability, JobQueued
from walras_contracts.drains import VacateReason
from walras_contracts.runs import RunSpec
from walras_contracts.work import LeaseGranted
from walras_runtime.records import Output, tombstone

RUN = RunSpec(command=("python", "train.py"), checkpoint_ms=45_000)


@pytest.fixture
def gang(kit: Any) -> Any:
    """A bench with a gang of two parts on two nodes."""
    bench = kit.bench()
    bench.step(
        kit.node("n1", 2), kit.node("n2", 2), kit.quota("t1", a=(4, 0, 5)), bench.job("j1", 4)
    )
    return bench


def starts(written: list[Any]) -> dict[str, bool]:
    return {e.node: e.may_start for e in written if isinstance(e, LeaseGranted)}


def test_a_lease_of_one_part_may_start_at_once_and_several_parts_wait_for_each_other(
    kit: Any,
) -> None:
    bench = kit.bench()
    written = bench.step(
        kit.node("n1", 2),
        kit.node("n2", 2),
        kit.quota("t1", a=(4, 0, 5)),
        bench.job("single", 1),
        bench.job("gang", 3),
    )

    assert {(e.job, e.may_start) for e in written if isinstance(e, LeaseGranted)} == {
        ("single", True),
        ("gang", False),
    }


def test_the_parts_are_written_again_once_the_last_one_is_accepted(gang: Any) -> None:
    assert starts(gang.step(gang.said("j1", "accepted", "n1"))) == {}
    assert starts(gang.step(gang.said("j1", "accepted", "n1"))) == {}, "said again"
    assert starts(gang.step(gang.said("j1", "accepted", "n2"))) == {"n1": True, "n2": True}
    assert starts(gang.step(gang.said("j1", "running", "n1"))) == {}


def test_agents_that_run_all_the_same_are_not_told(gang: Any) -> None:
    written = gang.step(gang.said("j1", "running", "n1"), gang.said("j1", "running", "n2"))
    assert starts(written) == {}


def test_one_that_runs_and_one_that_accepted_are_all_there(gang: Any) -> None:
    gang.step(gang.said("j1", "running", "n1"))
    assert starts(gang.step(gang.said("j1", "accepted", "n2"))) == {"n1": True, "n2": True}


def test_a_lease_says_how_to_run_the_job_and_how_it_leaves_also_when_written_again(
    kit: Any,
) -> None:
    bench = kit.bench()
    job = {"drainability": Drainability.CHECKPOINT, "run": RUN}
    bench.step(
        kit.node("n1", 1),
        kit.node("n2", 1),
        kit.quota("t1", a=(2, 0, 5)),
        bench.job("j1", 2, limit=9, **job),
    )
    bench.step(bench.said("j1", "accepted", "n1"), bench.said("j1", "accepted", "n2"))
    bench.step(bench.job("j1", 2, limit=7, **job))

    for part in bench.leases["j1"].values():
        assert (part.limit_micro, part.may_start) == (7, True)
        assert (part.drainability, part.run) == (Drainability.CHECKPOINT, RUN)


@pytest.mark.parametrize("outcome", ["start_failed", "refused", "failed", "lost", "vacated"])
def test_without_a_part_the_others_have_to_leave_and_the_job_returns_with_the_last_one(
    kit: Any, gang: Any, outcome: str
) -> None:
    gone = gang.leases["j1"]["n1"]
    written = gang.step(gang.said("j1", "freed", "n1", outcome, 600_000))

    assert kit.vacates(written) == {"j1": VacateReason.GANG_BROKEN}
    assert [(e.topic, e.key) for e in written if isinstance(e, Output)] == [
        ("leases", gone.record_key())
    ]
    assert gang.states()["j1"] == "draining"
    assert kit.vacates(gang.step()) == {}, "asked once"
    gang.step(gang.said("j1", "freed", "n2", "vacated", 400_000))
    status = gang.statuses["j1"]
    assert (status.remaining_run_ms, status.attempt) == (600_000, 2), "it starts anew at once"


def test_a_part_that_finishes_leaves_the_others_running(kit: Any, gang: Any) -> None:
    written = gang.step(gang.said("j1", "freed", "n1", "finished", 0))
    assert kit.vacates(written) == {}
    assert gang.states()["j1"] == "running"
    gang.step(gang.said("j1", "freed", "n2", "finished", 0))
    assert gang.states()["j1"] == "finished"


def test_a_gang_that_leaves_anyway_is_not_asked_again(kit: Any, gang: Any) -> None:
    gang.step(kit.quota("t1", a=(0, 0, 5)))
    assert kit.vacates(gang.step(gang.said("j1", "freed", "n1", "failed", 5))) == {}


def test_a_gang_whose_job_left_the_queue_before_it_started_leaves_whole(
    kit: Any, gang: Any
) -> None:
    written = gang.step(
        tombstone(JobQueued, "t1/j1", "t1"),
        gang.said("j1", "accepted", "n1"),
        gang.said("j1", "accepted", "n2"),
    )
    assert kit.vacates(written) == {"j1": VacateReason.LEFT_QUEUE}
    gang.step(*gang.freed("j1", "vacated", 5))
    assert gang.state.jobs == {}
