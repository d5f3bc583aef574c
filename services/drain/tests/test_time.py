"""Holes in market time, and the intervals of replays: what becomes of timers and deadlines."""

from typing import Any

import pytest

from walras_drain.clock import rounded_up_ms


def test_durations_are_rounded_up_to_whole_intervals() -> None:
    found = [rounded_up_ms(ms, 60_000) for ms in (1, 60_000, 60_001)]
    assert found == [60_000, 60_000, 120_000]


def test_after_a_hole_a_drain_has_the_time_that_it_had_before_it(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    before = bench.step(bench.vacate("l1")).sessions["l1"]
    bench.step()
    written = bench.step(after_ms=600_000)
    after = written.sessions["l1"]
    # Two intervals of the hole count, the rest does not.
    assert after.deadline_ms == before.deadline_ms + 590_000
    assert after.commanded_ms == before.commanded_ms
    assert written.told == {}
    while bench.now_ms < after.deadline_ms:
        assert bench.step().states in ({}, {"l1": "warned"})
    assert bench.step().states == {"l1": "failed"}


def test_two_intervals_without_a_barrier_are_no_hole(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    before = bench.step(bench.vacate("l1")).sessions["l1"]
    bench.step(after_ms=10_000)
    assert bench.step(bench.says("l1", "waiting")).sessions["l1"].deadline_ms == before.deadline_ms


def test_a_hole_does_not_use_up_the_longest_wait_nor_the_time_of_a_node(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l0"), *kit.lease("l1", drainability="none"))
    bench.step(
        kit.terms(disruption_window_ms=86_400_000, minimum_distance_ms=1),
        kit.node("n1", state="draining", within_ms=60_000),
        bench.vacate("l0"),
        bench.vacate("l1"),
    )
    opened_ms = bench.now_ms
    written = bench.step(after_ms=3_600_000)
    assert written.nodes["n1"].state == "blocked"
    assert written.states["l1"] == "pending"
    while written.states.get("l1") != "warned":
        written = bench.step()
    assert bench.now_ms == opened_ms + 3_600_000 - 10_000 + 600_000


def test_what_agents_said_during_a_hole_counts_before_any_deadline(kit: Any) -> None:
    bench = kit.bench()
    bench.step(kit.node("n1"), *kit.lease("l1"))
    bench.step(bench.vacate("l1"))
    assert bench.step(bench.lease_is("l1"), after_ms=3_600_000).states == {"l1": "freed"}


@pytest.mark.parametrize(("interval_ms", "ends_ms"), [(5_000, 105_000), (60_000, 240_000)])
def test_deadlines_are_barriers_and_the_next_one_ends_the_session(
    kit: Any, interval_ms: int, ends_ms: int
) -> None:
    """In a replay every link of a drain rounds up, and agents are heard one barrier later."""
    bench = kit.bench(interval_ms=interval_ms)
    bench.step(kit.node("n1"), *kit.lease("l1"))
    begun = bench.step(bench.vacate("l1")).sessions["l1"]
    assert begun.deadline_ms - bench.now_ms == ends_ms - interval_ms
    while bench.step().states != {"l1": "failed"}:
        assert bench.now_ms < begun.commanded_ms + ends_ms
    assert bench.now_ms == begun.commanded_ms + ends_ms


def test_a_step_in_which_nothing_happens_keeps_nothing_but_its_time(kit: Any) -> None:
    bench = kit.bench()
    names = [f"l{number}" for number in range(8)]
    bench.step(kit.node("n1", 99), *kit.flat(kit.lease(name) for name in names))
    bench.step(*(bench.vacate(name) for name in names))
    before = {entry.key for entry in bench.log.read("state.drain", 0, 0)}
    assert sum(key.startswith("session/") for key in before) == 8
    end = bench.log.entries["state.drain", 0][-1].offset + 1
    assert bench.step().events == []
    kept = [entry.key for entry in bench.log.read("state.drain", 0, end)]
    assert kept == ["~clock", "~position"]
