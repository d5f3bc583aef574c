"""R16: what is stuck is escalated, and its time is the platform's: `drain_stuck_seconds`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from walras_drain.handlers import DrainStage
from walras_drain.settings import Settings
from walras_drain.stuck import NODES, PARTS, Stuck, passed_ms
from walras_drain.wiring import Metrics, build
from walras_runtime.memory.runner import MemoryRunner
from walras_runtime.watched import WatchedStage

INTERVAL_MS = 5_000
WEEK_S = 7 * 86_400


class Shown:
    """The metrics of a bench: its stage is watched."""

    def __init__(self, bench: Any) -> None:
        self.registry = CollectorRegistry()
        self.watch = Metrics(self.registry).show
        settings = Settings(kafka_bootstrap="none", interval_ms=INTERVAL_MS)
        bench._spec = build(settings, self.watch)
        bench.crash()

    def value(self, name: str, what: str) -> float | None:
        return self.registry.get_sample_value(f"walras_drain_stuck{name}", {"what": what})

    def seconds(self, what: str) -> float | None:
        return self.value("_seconds_total", what)


@pytest.fixture
def bench(kit: Any) -> Any:
    return kit.bench(interval_ms=INTERVAL_MS)


@pytest.fixture
def shown(bench: Any) -> Shown:
    return Shown(bench)


def test_a_node_beyond_its_deadline_is_escalated_and_costs_the_platform_until_it_is_empty(
    kit: Any, bench: Any, shown: Shown
) -> None:
    bench.step(kit.node("n1"), *kit.lease("l1", devices=2, drainability="none", team="ads"))
    written = bench.step(kit.node("n1", state="draining", within_ms=60_000))
    deadline_ms = written.nodes["n1"].deadline_ms
    while bench.now_ms < deadline_ms + 65_000:
        written = bench.step()
        if bench.now_ms == deadline_ms + INTERVAL_MS:
            assert written.notices == [("drain_escalated", None)]
    # It is named stuck at the first barrier behind its deadline; from there on each second counts.
    assert shown.seconds(NODES) == 60
    assert (shown.value("", NODES), shown.value("_macc", NODES)) == (1, 2000)
    assert shown.seconds(PARTS) == 0
    written = bench.step(*kit.lease_ends("l1"))
    assert written.nodes["n1"].state == "drained"
    for _ in range(20):
        bench.step()
    assert shown.seconds(NODES) == 60
    assert (shown.value("", NODES), shown.value("_macc", NODES)) == (0, 0)


def test_devices_that_are_not_free_cost_the_platform_until_they_are(
    kit: Any, bench: Any, shown: Shown
) -> None:
    bench.step(kit.node("n1"), *kit.lease("l1", devices=3))
    bench.step(bench.vacate("l1"))
    bench.step(bench.lease_is("l1", "stuck"))
    for _ in range(24):
        bench.step()
    assert shown.seconds(PARTS) == 120
    assert (shown.value("", PARTS), shown.value("_macc", PARTS)) == (1, 3000)
    bench.step(bench.lease_is("l1"), *kit.lease_ends("l1"))
    assert (shown.value("", PARTS), shown.value("_macc", PARTS)) == (0, 0)
    assert shown.seconds(PARTS) == 120


def test_two_that_are_stuck_count_twice_and_a_restart_goes_on(
    kit: Any, bench: Any, shown: Shown
) -> None:
    bench.step(kit.node("n1"), *kit.lease("l1"), *kit.lease("l2"))
    bench.step(bench.lease_is("l1", "stuck"), bench.lease_is("l2", "stuck"))
    bench.step()
    assert shown.seconds(PARTS) == 10
    bench.crash()
    bench.step()
    assert shown.seconds(PARTS) == 20


def test_a_step_that_is_decided_again_counts_once() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    stuck = {PARTS: Stuck(1, 1000)}
    for step in (1, 2, 2, 2, 3):
        metrics.show(step, stuck, 700)
    name = "walras_drain_stuck_seconds_total"
    assert registry.get_sample_value(name, {"what": PARTS}) == 1, "1,400 ms"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2_000)), max_size=40))
def test_no_part_of_a_second_is_lost_however_short_the_steps(steps: list[tuple[int, int]]) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    total_ms = before = 0
    for number, (count, step_ms) in enumerate(steps):
        metrics.show(number, {NODES: Stuck(count, 0)}, step_ms)
        total_ms += min(before, count) * step_ms
        before = count
    found = registry.get_sample_value("walras_drain_stuck_seconds_total", {"what": NODES})
    assert (found or 0) == total_ms // 1000


@pytest.mark.parametrize(
    ("last_ms", "now_ms", "expected_ms"),
    [(None, 5, 0), (0, 5_000, 5_000), (0, 10_000, 10_000), (0, 1_000 * WEEK_S, 10_000), (9, 3, 0)],
)
def test_of_a_hole_in_market_time_two_intervals_count(
    last_ms: int | None, now_ms: int, expected_ms: int
) -> None:
    assert passed_ms(last_ms, now_ms, INTERVAL_MS) == expected_ms


def test_a_stage_that_is_watched_decides_as_one_that_is_not(kit: Any) -> None:
    plain, watched = kit.bench(), kit.bench()
    Shown(watched)
    for bench in (plain, watched):
        bench.step(kit.node("n1"), *kit.lease("l1"), *kit.lease("l2"))
        bench.step(bench.vacate("l1"), bench.lease_is("l2", "stuck"))
        for _ in range(30):
            bench.step()
    assert watched.log.entries == plain.log.entries
    stage = build(Settings(kafka_bootstrap="none")).build(0)
    assert isinstance(stage, DrainStage)
    assert not isinstance(stage, WatchedStage)
    assert isinstance(MemoryRunner(watched._spec, watched.log).stage, WatchedStage)
