"""Lost nodes, fences, devices that are not freed: runs end, devices stay held until it is safe."""

from typing import Any

import pytest

from walras_contracts.drains import VacateReason
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import DrainState, JobState
from walras_runtime.memory.runner import state_digest_input
from walras_runtime.records import Output

MINUTE_MS = 60_000


@pytest.fixture(params=[False, True], ids=["calm", "crashing"])
def bench(kit: Any, request: Any) -> Any:
    """Two nodes of two devices; j1 runs on n1."""
    bench = kit.bench(crash=request.param)
    bench.step(kit.node("n1", 2), kit.node("n2", 1), kit.quota("t1", a=(2, 0, 5)))
    bench.step(bench.job("j1", 2))
    return bench


def ended(written: list[Any]) -> list[str]:
    return [e.key for e in written if isinstance(e, Output) and e.topic == "leases"]


def test_a_lost_node_ends_the_run_and_keeps_the_devices(kit: Any, bench: Any) -> None:
    first = bench.leases["j1"]["n1"]
    written = bench.step(kit.node("n1", 2, lost=True))

    assert ended(written) == []
    assert kit.vacates(written) == {}
    status = bench.statuses["j1"]
    assert (status.state, status.remaining_run_ms) == (JobState.PENDING, 600_000)
    assert status.reason == WaitReason.EXCEEDS_SUPPLY
    bench.step(kit.node("n1", 2))
    assert kit.granted(bench.step()) == [], "the node is back, the devices are still held"
    written = bench.step(bench.said("j1", "freed", outcome="vacated", lease=first))
    assert ended(written) == [first.record_key()]
    assert bench.leases["j1"]["n1"].attempt == 2


def test_a_job_of_a_lost_node_starts_elsewhere_at_once_and_its_remnant_never_is_it_again(
    kit: Any, bench: Any
) -> None:
    first = bench.leases["j1"]["n1"]
    bench.step(kit.node("n3", 2))
    bench.step(kit.node("n1", 2, lost=True))
    again = bench.leases["j1"]["n3"]
    assert again.lease != first.lease
    written = bench.step(kit.node("n1", 2))
    assert kit.vacates(written) == {"j1": VacateReason.DEVICE_WITHDRAWN}
    assert [e.lease for e in written if hasattr(e, "reason") and hasattr(e, "requested_ms")] == [
        first.lease
    ]
    assert bench.states()["j1"] == "running"
    assert kit.vacates(bench.step()) == {}, "asked once"


def test_a_remnant_that_says_it_runs_is_asked_again(kit: Any, bench: Any) -> None:
    first = bench.leases["j1"]["n1"]
    bench.step(kit.node("n1", 2, lost=True))
    bench.step(kit.node("n1", 2))
    written = bench.step(bench.said("j1", "running", lease=first))
    assert kit.vacates(written) == {"j1": VacateReason.DEVICE_WITHDRAWN}


def test_a_remnant_is_asked_again_when_its_node_is_lost_and_back_again(
    kit: Any, bench: Any
) -> None:
    for _ in range(2):
        bench.step(kit.node("n1", 2, lost=True))
        assert kit.vacates(bench.step(kit.node("n1", 2))) == {"j1": VacateReason.DEVICE_WITHDRAWN}


def test_a_fence_frees_what_was_granted_up_to_it(kit: Any, bench: Any) -> None:
    first = bench.leases["j1"]["n1"]
    bench.step(kit.node("n1", 2, lost=True))
    written = bench.step(kit.node("n1", 2, fenced_ms=first.granted_ms - 1))
    assert ended(written) == []
    written = bench.step(kit.node("n1", 2, fenced_ms=first.granted_ms))
    assert ended(written) == [first.record_key()]
    assert kit.granted(written) == ["j1"]
    assert ended(bench.step(kit.node("n1", 2, fenced_ms=first.granted_ms))) == [], (
        "what was granted since runs on"
    )
    assert not [key for key in state_digest_input(bench.log, "placement") if "remnant" in key]


def test_a_fence_ends_what_runs_on_a_node_that_never_was_lost(kit: Any, bench: Any) -> None:
    first = bench.leases["j1"]["n1"]
    written = bench.step(kit.node("n1", 2, fenced_ms=first.granted_ms))
    assert ended(written) == [first.record_key()]
    assert bench.leases["j1"]["n1"].attempt == 2


def test_the_other_parts_of_a_gang_leave_and_only_then_the_job_is_pending(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 2), kit.node("n2", 2), kit.quota("t1", a=(4, 0, 5)), bench.job("j1", 4)
    )
    written = bench.step(kit.node("n1", 2, lost=True))
    assert kit.vacates(written) == {"j1": VacateReason.GANG_BROKEN}
    assert bench.states()["j1"] == "draining"
    bench.step(bench.said("j1", "freed", "n2", "vacated", 300_000))
    status = bench.statuses["j1"]
    assert (status.state, status.remaining_run_ms) == (JobState.PENDING, 600_000)


def test_a_drain_that_failed_ends_the_run_and_leaves_the_devices_held(kit: Any, bench: Any) -> None:
    first = bench.leases["j1"]["n1"]
    bench.step(bench.job("j1", 2, cancelled=True))
    written = bench.step(bench.drained("j1", DrainState.FAILED, outcome="device_not_freed"))
    assert ended(written) == []
    assert bench.states()["j1"] == "cancelled"
    assert kit.granted(bench.step(bench.job("j2", 2))) == []
    written = bench.step(bench.said("j1", "freed", outcome="vacated", lease=first))
    assert ended(written) == [first.record_key()]
    assert kit.granted(written) == ["j2"]


@pytest.mark.parametrize(
    ("exit_code", "state"), [(0, JobState.FINISHED), (1, JobState.PENDING), (None, "pending")]
)
def test_a_job_that_ended_on_devices_that_are_not_free_has_ended(
    kit: Any, bench: Any, exit_code: int | None, state: JobState
) -> None:
    bench.step(bench.said("j1", "stuck", left_ms=0, exit_code=exit_code))
    assert bench.statuses["j1"].state == state
    bench.step(bench.job("j2", 2))
    assert "j2" not in bench.leases, "its devices are held"


def test_what_is_left_on_a_lost_node_counts_as_no_work_that_goes_on(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 2), kit.node("n2", 2), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2)
    )
    bench.step(kit.node("n1", 2, lost=True))
    # Supply is two now, and the quota of the lost run is free for the next one, once.
    assert list(bench.leases["j1"]) == ["n1", "n2"]
    assert bench.figures["a"].held_macc == 2000
    assert bench.figures["a"].remnant_macc == 2000
