"""Silent nodes: lost after the timeout of flowing market time, back when they speak."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from walras_capacity.stage import CapacityStage
from walras_contracts.capacity import NodeHealthReported
from walras_runtime.records import Barrier, Record, Step

Make = Callable[..., Any]

INTERVAL_MS = 5_000
TIMEOUT_STEPS = 18
"""The default timeout is 90 s."""


@pytest.fixture
def capacity(make_capacity: Make) -> Any:
    """Two nodes of eight devices; n1 has an agent that has spoken, n2 has none."""
    capacity = make_capacity(interval_ms=INTERVAL_MS, expected_ms=INTERVAL_MS)
    capacity.node("n1")
    capacity.node("n2")
    capacity.health("n1")
    capacity.tick()
    return capacity


def test_a_node_that_is_silent_for_the_timeout_is_lost_and_cannot_be_sold(capacity: Any) -> None:
    for _ in range(TIMEOUT_STEPS - 1):
        capacity.tick()
    assert (capacity.lost(), capacity.supply()) == ([], (16_000, {}, 0))
    capacity.tick()
    assert (capacity.lost(), capacity.supply()) == (["n1"], (8_000, {}, 8_000))


def test_a_lost_node_is_back_when_it_speaks_and_is_expected_to_go_on(capacity: Any) -> None:
    for _ in range(TIMEOUT_STEPS + 5):
        capacity.tick()
    capacity.health("n1", 0)
    capacity.tick()
    assert (capacity.lost(), capacity.supply()) == ([], (15_000, {}, 1_000))
    for _ in range(TIMEOUT_STEPS):
        capacity.tick()
    assert capacity.lost() == ["n1"]


def test_every_report_begins_the_silence_anew(capacity: Any) -> None:
    for number in range(4 * TIMEOUT_STEPS):
        if number % (TIMEOUT_STEPS - 1) == 0:
            capacity.health("n1")
        capacity.tick()
        assert capacity.lost() == []


def test_an_outage_of_three_minutes_loses_nobody_and_timers_start_again(capacity: Any) -> None:
    for _ in range(TIMEOUT_STEPS - 1):
        capacity.tick()
    capacity.tick(after_ms=180_000)
    for _ in range(TIMEOUT_STEPS - 1):
        capacity.tick()
        assert capacity.lost() == []
    capacity.tick()
    assert capacity.lost() == ["n1"]


def test_a_lost_node_is_still_lost_after_an_outage(capacity: Any) -> None:
    for _ in range(TIMEOUT_STEPS):
        capacity.tick()
    capacity.tick(after_ms=180_000)
    assert capacity.lost() == ["n1"]


def test_barriers_two_intervals_apart_flow(capacity: Any) -> None:
    for _ in range(TIMEOUT_STEPS // 2 - 1):
        capacity.tick(after_ms=2 * INTERVAL_MS)
    assert capacity.lost() == []
    capacity.tick(after_ms=2 * INTERVAL_MS)
    assert capacity.lost() == ["n1"]


def test_the_timeout_is_that_of_the_platform_document_in_force(capacity: Any) -> None:
    capacity.timeout(20_000, version=1)
    capacity.timeout(30_000, version=2, effective_ms=capacity.time_ms + 15_000)
    lost = []
    for _ in range(6):
        capacity.tick()
        lost.append(capacity.lost())

    assert lost == [[]] * 5 + [["n1"]]


def test_an_agent_that_says_good_bye_is_not_waited_for(capacity: Any) -> None:
    capacity.forget_health("n1")
    for _ in range(2 * TIMEOUT_STEPS):
        capacity.tick()
    assert capacity.lost() == []


def test_a_fence_counts_at_once_and_the_node_is_as_one_without_an_agent(capacity: Any) -> None:
    for _ in range(TIMEOUT_STEPS):
        capacity.tick()
    said_ms = capacity.time_ms + 3_000
    capacity.node("n1", fenced=True, observed_ms=said_ms)
    capacity.tick()
    assert (capacity.lost(), capacity.supply()) == ([], (16_000, {}, 0))
    assert capacity.table("nodes")["n1"].fenced_ms == said_ms
    for _ in range(TIMEOUT_STEPS + 1):
        capacity.tick()
    assert capacity.lost() == []
    capacity.health("n1")
    for _ in range(TIMEOUT_STEPS + 1):
        capacity.tick()
    assert capacity.lost() == ["n1"], "it spoke, and was silent again"


def test_a_fence_that_is_said_again_frees_nothing_more(capacity: Any) -> None:
    capacity.node("n1", fenced=True, observed_ms=capacity.time_ms)
    capacity.tick()
    capacity.health("n1")
    capacity.tick()
    for _ in range(TIMEOUT_STEPS):
        capacity.tick()
    shown = capacity.table("nodes")["n1"]
    capacity.node("n1", fenced=True, observed_ms=shown.fenced_ms)
    capacity.tick()
    assert capacity.lost() == ["n1"]
    assert capacity.table("nodes")["n1"] == shown


def test_a_fence_from_the_future_does_not_reach_what_is_granted_now(capacity: Any) -> None:
    capacity.node("n1", fenced=True, observed_ms=capacity.time_ms + 10**9)
    at_ms = capacity.tick()
    assert capacity.table("nodes")["n1"].fenced_ms == at_ms - 1


def test_reports_that_are_late_are_not_silence() -> None:
    stage = CapacityStage(INTERVAL_MS)

    def step(number: int, *records: Record, late: tuple[str, ...] = ()) -> None:
        for record in records:
            stage.fold(record)
        stage.step(
            Step(
                Barrier(number, number * INTERVAL_MS),
                {"inventory": [], "node.health": list(records), "accounts": []},
                late,
            )
        )

    event = NodeHealthReported(node="n1", unhealthy_devices=(), reported_ms=1)
    step(0, Record("node.health", 0, 0, "n1", event.TYPE, event.payload(), event))
    for number in range(1, 3 * TIMEOUT_STEPS):
        step(number, late=(f"node.health/0@{number - 1}",))
    assert not stage.state.node("n1").lost
    assert list(stage.state.heartbeats.silent(1)) == []


def course(make_capacity: Make, seed: int, *, crash: bool) -> Any:
    """Agents that come, go silent, speak again; fences; outages."""
    draw = random.Random(seed)
    capacity = make_capacity(interval_ms=INTERVAL_MS, expected_ms=INTERVAL_MS)
    names = [f"n{number}" for number in range(6)]
    for name in names:
        capacity.node(name)
    silent: dict[str, None] = {}
    for _ in range(150):
        for name in names:
            if draw.random() < 0.04:
                silent[name] = None
            elif draw.random() < 0.04:
                silent.pop(name, None)
            if name not in silent and draw.random() < 0.6:
                capacity.health(name)
        if draw.random() < 0.03:
            capacity.node(draw.choice(names), fenced=True, observed_ms=capacity.time_ms)
        if draw.random() < 0.02:
            capacity.timeout(draw.choice((20_000, 90_000)), version=capacity.number + 2)
        capacity.tick(after_ms=180_000 if draw.random() < 0.02 else INTERVAL_MS)
        if crash:
            capacity.crash()
    return capacity


@pytest.mark.parametrize("seed", range(5))
def test_a_crash_after_every_step_loses_the_same_nodes_at_the_same_time(
    make_capacity: Make, seed: int
) -> None:
    calm, crashed = (course(make_capacity, seed, crash=crash) for crash in (False, True))
    assert [node.lost for node in calm.events("nodes")].count(True) > 3
    for topic in ("supply", "nodes", "state.capacity"):
        assert crashed.written(topic) == calm.written(topic)


def test_canary_a_capacity_that_forgets_when_it_heard_whom_is_caught(make_capacity: Make) -> None:
    class Forgetful(CapacityStage):
        def load(self, key: str, value: bytes) -> None:
            if key != "clock":
                super().load(key, value)

    def make(**options: Any) -> Any:
        return make_capacity(lambda _: Forgetful(INTERVAL_MS), **options)

    calm, crashed = (course(make, 0, crash=crash) for crash in (False, True))
    assert crashed.written("nodes") != calm.written("nodes")
