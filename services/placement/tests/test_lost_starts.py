"""An agent that comes back to a node that was lost must not start what goes on elsewhere."""

from typing import Any

import pytest

from walras_contracts.work import LeaseGranted
from walras_runtime.records import Output


def starts(written: list[Any]) -> dict[tuple[str, str], bool]:
    return {(e.lease, e.node): e.may_start for e in written if isinstance(e, LeaseGranted)}


@pytest.fixture
def bench(kit: Any) -> Any:
    """A bench with a job on one of two nodes, of which its agent has said nothing."""
    bench = kit.bench()
    bench.step(kit.node("n1", 2), kit.quota("t1", a=(2, 0, 5)), bench.job("j1", 2))
    bench.step(kit.node("n2", 2))
    return bench


def test_a_lease_that_is_given_up_with_its_node_may_not_start_any_more(
    kit: Any, bench: Any
) -> None:
    (first,) = bench.leases["j1"].values()
    assert first.may_start
    written = starts(bench.step(kit.node("n1", 2, lost=True)))

    assert written.pop((first.lease, "n1")) is False
    ((again, node), may_start) = written.popitem()
    assert (node, may_start) == ("n2", True), "its job goes on elsewhere"
    assert again != first.lease


def test_it_may_not_when_its_node_is_back_either(kit: Any, bench: Any) -> None:
    (first,) = bench.leases["j1"].values()
    bench.step(kit.node("n1", 2, lost=True))
    written = bench.step(kit.node("n1", 2), bench.said("j1", "accepted", lease=first))
    assert starts(written) == {}


def test_of_a_gang_only_the_part_on_the_lost_node_is_written_again(kit: Any) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 2), kit.node("n2", 2), kit.quota("t1", a=(4, 0, 5)), bench.job("j1", 4)
    )
    bench.step(bench.said("j1", "accepted", "n1"))
    bench.step(bench.said("j1", "accepted", "n2"))
    (lease,) = {part.lease for part in bench.leases["j1"].values()}
    assert starts(bench.step(kit.node("n1", 2, lost=True))) == {(lease, "n1"): False}


def test_a_job_that_left_the_queue_is_not_written_again(kit: Any, bench: Any) -> None:
    """Nothing is known any more of what it ran; it was asked to leave when it left."""
    bench.step(Output("queue", "t1/j1", "t1", "walras.job.queued.v1", None))
    assert starts(bench.step(kit.node("n1", 2, lost=True))) == {}
