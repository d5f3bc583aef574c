"""R1: no job is evicted again and again, and two that take each other's devices are found."""

from itertools import pairwise
from typing import Any

import pytest

from walras_contracts.drains import VacateReason
from walras_contracts.wait_reasons import NO_DEMAND, WaitReason
from walras_placement.shares import Share
from walras_placement.takeovers import Takeovers

HOLD = 10
CYCLES = 1_000


def bounce(
    kit: Any, *, crash: bool = False, cycles: int = CYCLES
) -> tuple[Any, dict[str, list[int]]]:
    """One device, two teams with a job each, and quota that changes sides in every cycle."""
    bench = kit.bench(crash=crash)
    evicted: dict[str, list[int]] = {"a1": [], "b1": []}
    bench.step(kit.node("n1", 1), bench.job("a1", 1, team="A"), bench.job("b1", 1, team="B"))
    detected = []
    for cycle in range(1, cycles):
        rich, poor = ("A", "B") if cycle % 2 else ("B", "A")
        given = [kit.quota(rich, a=(1, 0, 5)), kit.quota(poor, a=(0, 0, 5))]
        for name in sorted(bench.leases):
            if bench.states()[name] == "draining":
                given += bench.freed(name, "vacated", 5)
        for name in kit.vacates(bench.step(*given)):
            evicted[name].append(cycle)
        if bench.figures["a"].preemption_cycles_detected:
            detected.append((cycle, bench.figures["a"].preemption_cycles))
    bench.detected = detected
    return bench, evicted


def test_over_a_thousand_cycles_nobody_is_evicted_twice_within_the_hold(kit: Any) -> None:
    bench, evicted = bounce(kit)
    for cycles in evicted.values():
        gaps = [later - one for one, later in pairwise(cycles)]
        assert min(gaps) >= HOLD
        assert len(cycles) <= CYCLES // HOLD
    assert bench.state.jobs.keys() == {"A/a1", "B/b1"}


def test_the_third_takeover_between_two_jobs_is_a_preemption_cycle_and_freezes_one(
    kit: Any,
) -> None:
    bench, evicted = bounce(kit, cycles=150)
    cycle, pairs = bench.detected[0]
    takeovers = sorted(at for cycles in evicted.values() for at in cycles if at <= cycle)
    assert len(takeovers) <= 6, "by the third repeat"
    (pair,) = pairs
    frozen, other = pair.evicted.partition("/")[2], pair.by.partition("/")[2]
    assert {frozen, other} == {"a1", "b1"}
    assert not [at for at in evicted[frozen] if cycle < at <= cycle + 100], "it is kept out"


def test_a_crash_in_every_cycle_forgets_no_eviction(kit: Any) -> None:
    calm, _ = bounce(kit, cycles=60)
    crashed, _ = bounce(kit, cycles=60, crash=True)
    assert crashed.log.entries == calm.log.entries


def test_an_evicted_job_waits_and_says_that_it_is_no_demand(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    bench.step(kit.quota("t1", a=(0, 0, 5)))
    bench.step(*bench.freed("j1", "vacated", 5), kit.quota("t1", a=(1, 0, 5)))
    started = []
    for _ in range(HOLD):
        assert bench.statuses["j1"].reason in {"", *NO_DEMAND}
        started += kit.granted(bench.step())
    assert started == ["j1"]


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        (VacateReason.MAINTENANCE, False),
        (VacateReason.ORDERED, True),
        (VacateReason.PRESSURE, True),
        (VacateReason.LOW_USE, True),
    ],
)
def test_only_what_was_evicted_waits_and_not_what_has_to_move(
    kit: Any, reason: VacateReason, waits: bool
) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    bench.step(bench.request("j1", reason))
    bench.step()
    assert (kit.granted(bench.step(*bench.freed("j1", "vacated", 5))) == []) is waits


def test_the_end_of_the_one_that_took_over_lets_the_other_go_on(kit: Any) -> None:
    bench, _ = bounce(kit, cycles=150)
    cycle, pairs = bench.detected[0]
    again, _ = bounce(kit, cycles=cycle + 1)
    by = pairs[0].by.partition("/")[2]
    frozen = again.state.jobs[pairs[0].evicted]
    assert frozen.frozen_until_step > cycle + HOLD
    again.step(*again.freed(by))
    assert frozen.frozen_until_step == 0


def test_a_device_names_who_was_evicted_from_it_until_it_is_given_to_somebody() -> None:
    one, other = Share("n1", (0,), 1000), Share("n1", (0, 1), 2000)
    seen = Takeovers()
    for step in (1, 5, 9):
        seen.leave("t/x", one)
        found = seen.take("t/y", (other,), step, 100)
        assert found == (["t/x"] if step == 9 else [])
    seen.leave("t/x", one)
    seen.forget("t/x")
    assert seen.take("t/y", (one,), 10, 100) == []
    for step in (20, 121, 222):
        seen.leave("t/x", one)
        assert seen.take("t/y", (one,), step, 100) == [], "too far apart"
    kept = Takeovers()
    for change in seen.take_changes():
        if change.value is not None:
            kept.load(change.key, change.value)
    for each in (seen, kept):
        each.leave("t/x", one)
        assert each.take("t/y", (one,), 223, 100) == []
        each.leave("t/x", one)
        assert each.take("t/y", (one,), 224, 100) == ["t/x"]


def test_a_job_that_is_held_back_says_so(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1", 1), kit.quota("t1", a=(1, 0, 5)), bench.job("j1", 1))
    bench.step(kit.quota("t1", a=(0, 0, 5)))
    bench.step(*bench.freed("j1", "vacated", 5))
    assert bench.statuses["j1"].reason == WaitReason.HELD_BACK
    assert bench.figures["a"].held_back_jobs == 1
