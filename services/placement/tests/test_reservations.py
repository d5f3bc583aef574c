"""Devices that are freed for a claim are the claim's, and never more is given than there is."""

from typing import Any

import pytest

from walras_contracts.capacity import NodeState
from walras_contracts.event import Event
from walras_contracts.wait_reasons import WaitReason
from walras_contracts.work import LeaseGranted
from walras_placement.reservations import Reservation
from walras_runtime.records import Output


def reserved(bench: Any) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    return {
        key: [(share.node, share.devices) for share in reservation.shares]
        for key, reservation in bench.state.reservations.items()
    }


@pytest.fixture(params=[False, True], ids=["calm", "crashing"])
def bench(kit: Any, request: Any) -> Any:
    """A node of two devices with two jobs that lost their quota to one claim of two devices."""
    bench = kit.bench(crash=request.param)
    bench.step(
        kit.node("n1", 2),
        kit.quota("A", a=(2, 0, 5)),
        bench.job("a1", 1, team="A"),
        bench.job("a2", 1, team="A"),
    )
    bench.step(
        kit.quota("A", a=(0, 0, 5)), kit.quota("B", a=(2, 0, 5)), bench.job("b1", 2, team="B")
    )
    return bench


def test_victims_that_finish_apart_free_devices_for_the_claim_and_are_not_put_back(
    kit: Any,
) -> None:
    """R2: forty seconds between the two, eight steps; two evictions, and the claimant starts."""
    bench = kit.bench(cycle_every=6)
    bench.step(
        kit.node("n1", 2),
        kit.quota("A", a=(2, 0, 5)),
        bench.job("a1", 1, team="A"),
        bench.job("a2", 1, team="A"),
        bench.job("small", 1, team="C"),
    )
    asked = [
        bench.step(
            kit.quota("A", a=(0, 0, 5)), kit.quota("B", a=(2, 0, 5)), bench.job("b1", 2, team="B")
        )
    ]
    # What comes free must not go to anybody else, though others would take it.
    asked.append(bench.step(*bench.freed("a1", "vacated", 5), kit.quota("C", a=(0, 1, 5))))
    asked += [bench.step(kit.quota("A", a=(0, 1, 5))) for _ in range(7)]
    assert bench.statuses["b1"].reason == WaitReason.WAITING_FOR_DEVICES
    asked.append(bench.step(*bench.freed("a2", "vacated", 5)))

    assert bench.states()["b1"] == "running"
    assert sum(len(kit.vacates(written)) for written in asked) == 2
    assert bench.states()["small"] == "pending"


def test_the_reservation_names_the_devices_that_leave_and_those_that_are_free_beside_them(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 3), kit.quota("A", a=(2, 0, 5)), bench.job("a1", 2, team="A"))
    bench.step(
        kit.quota("A", a=(0, 0, 5)),
        kit.quota("B", a=(3, 0, 5)),
        kit.quota("C", a=(0, 1, 5)),
        bench.job("b1", 3, team="B"),
        bench.job("c1", 1, team="C"),
    )
    assert reserved(bench) == {"B/b1": [("n1", (0, 1, 2))]}
    assert bench.statuses["c1"].reason == WaitReason.WAITING_FOR_DEVICES
    assert bench.figures["a"].reserved_macc == 1000


def test_a_claim_that_loses_its_quota_loses_its_reservation_in_that_step(
    kit: Any, bench: Any
) -> None:
    bench.step(*bench.freed("a1", "vacated", 5))
    written = bench.step(
        kit.quota("B", a=(1, 0, 5)), kit.quota("C", a=(1, 0, 5)), bench.job("c1", 1, team="C")
    )
    assert reserved(bench) == {}
    assert kit.granted(written) == ["c1"]


def test_a_claim_that_is_cancelled_leaves_its_devices_to_others(kit: Any, bench: Any) -> None:
    bench.step(*bench.freed("a1", "vacated", 5))
    bench.step(bench.job("b1", 2, team="B", cancelled=True))
    assert reserved(bench) == {}
    bench.step(kit.quota("C", a=(1, 0, 5)), bench.job("c1", 1, team="C"))
    assert bench.states()["c1"] == "running"


def test_a_claim_goes_on_as_soon_as_it_finds_other_devices(kit: Any, bench: Any) -> None:
    written = bench.step(kit.node("n2", 2))
    assert kit.granted(written) == ["b1"]
    assert reserved(bench) == {}


def test_a_reservation_whose_device_is_withdrawn_ends(kit: Any, bench: Any) -> None:
    bench.step(kit.node("n1", 2, withheld_devices=(1,)))
    assert reserved(bench) == {}


def test_claims_are_served_in_their_order(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 2), kit.quota("Z", a=(2, 0, 5)), bench.job("z1", 2, team="Z"))
    bench.step(
        kit.quota("Z", a=(0, 0, 5)),
        kit.quota("A", a=(2, 0, 5)),
        kit.quota("B", a=(2, 0, 5)),
        bench.job("b1", 1, team="B"),
        bench.job("a1", 2, team="A"),
    )
    assert list(reserved(bench)) == ["A/a1"]


def clawed_back(
    kit: Any, bench: Any, name: str, state: NodeState, devices: int
) -> list[Event | Output]:
    """Take the node of one of A's jobs away, and A's quota, which B has now and claims with b1."""
    node = next(iter(bench.leases[name]))
    written: list[Event | Output] = bench.step(
        kit.node(node, devices, state=state),
        kit.quota("A", a=(0, 0, 5)),
        kit.quota("B", a=(devices, 0, 5)),
        bench.job("b1", devices, team="B"),
    )
    return written


def test_devices_that_nothing_starts_on_are_given_back_two_cycles_after_they_were_freed(
    kit: Any,
) -> None:
    bench = kit.bench()
    bench.step(
        kit.node("n1", 1),
        kit.node("n2", 1),
        kit.quota("A", a=(2, 0, 5)),
        bench.job("a1", 1, team="A"),
        bench.job("a2", 1, team="A"),
    )
    # a2 runs on a withdrawn device: more is held than there is, and nothing may start.
    clawed_back(kit, bench, "a2", NodeState.WITHHELD, 1)
    bench.step(*bench.freed("a1", "vacated", 5))
    for _ in range(2):
        assert "B/b1" in reserved(bench)
        bench.step()
    # The claim asks anew for what is open; it is the only one.
    assert bench.states()["b1"] == "pending"
    bench.step(*bench.freed("a2", "vacated", 5))
    assert bench.states()["b1"] == "running"


def test_nothing_starts_while_more_is_held_than_there_is_after_an_urgent_clawback(
    kit: Any,
) -> None:
    """O18 and R3: what runs on withdrawn devices counts until it is gone."""
    bench = kit.bench()
    bench.step(
        kit.node("n1", 4),
        kit.node("n2", 4),
        kit.quota("A", a=(4, 0, 5)),
        bench.job("a1", 4, team="A"),
    )
    written = clawed_back(kit, bench, "a1", NodeState.GONE, 4)
    assert kit.granted(written) == []
    assert bench.statuses["b1"].reason == WaitReason.WAITING_FOR_DEVICES
    assert kit.granted(bench.step(*bench.freed("a1", "vacated", 5))) == ["b1"]


def test_a_reservation_over_is_one_that_was_free_for_longer_than_it_is_kept() -> None:
    waiting = Reservation("a", ())
    freed = waiting.after(7, is_free=True)
    assert not waiting.is_over(100, 2)
    assert [freed.is_over(step, 2) for step in (7, 9, 10)] == [False, False, True]
    assert freed.after(8, is_free=False) == waiting
    assert not Reservation("a", (), standing=True, freed_step=1).is_over(100, 2)
    assert Reservation.parse(freed.dump()) == freed


def handover(kit: Any, bench: Any) -> list[list[Event | Output]]:
    """Three teams of two devices each; one runs two jobs of three, the others claim theirs."""
    written = [
        bench.step(
            kit.node("n1", 6),
            kit.quota("A", a=(6, 0, 5)),
            bench.job("a1", 3, team="A"),
            bench.job("a2", 3, team="A"),
        ),
        bench.step(
            kit.quota("A", a=(2, 0, 5)),
            kit.quota("B", a=(2, 0, 5)),
            kit.quota("C", a=(2, 0, 5)),
            bench.job("b1", 2, team="B"),
            bench.job("c1", 2, team="C"),
        ),
        bench.step(),
    ]
    written.append(bench.step(*bench.freed("a1", "vacated", 1)))
    written.append(bench.step(*bench.freed("a2", "vacated", 1)))
    return written


def test_two_claims_in_one_tick_never_bring_the_devices_in_use_above_those_present(
    kit: Any,
) -> None:
    """O18."""
    bench = kit.bench()
    held: dict[str, int] = {}
    for written in handover(kit, bench):
        # Freed parts end their records before others may start in the same step.
        for output in [e for e in written if isinstance(e, Output) and e.topic == "leases"]:
            del held[output.key]
        for lease in [e for e in written if isinstance(e, LeaseGranted)]:
            held[lease.record_key()] = lease.size_macc
        assert sum(held.values()) <= 6000

    assert bench.states() == {
        "a1": "pending",
        "a2": "pending",
        "b1": "running",
        "c1": "running",
    }


def test_a_crash_before_every_step_leaves_the_same_log(kit: Any) -> None:
    whole, crashed = kit.bench(), kit.bench(crash=True)
    handover(kit, whole)
    handover(kit, crashed)

    assert crashed.log.entries == whole.log.entries
