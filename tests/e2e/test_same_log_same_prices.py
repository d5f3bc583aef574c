"""Same log, same prices: whatever is killed, frozen or replayed, the decisions do not change."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.disturbances import (
    epochs_of_barriers,
    freeze_leader,
    kill_at_random,
    kill_leader,
    kill_server,
)
from tests.simulation.world import World
from walras.demo.run import Running
from walras.scenario import load_scenario
from walras.trace import load_window

Report = dict[str, Any]
RunMarket = Callable[..., Report]

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

FAST_ELECTION: dict[str, Any] = {"election_session_ms": 2_000}


def assert_cycles_are_whole(report: dict[str, Any]) -> None:
    """No cycle number missing, doubled or decided twice."""
    assert report["cycles"]["dense"]
    for market, cycles in report["cycles"]["markets"].items():
        assert (cycles["missing"], cycles["doubled"]) == (0, 0), market
        assert cycles["states"] == {"cleared": report["cycles"]["count"]}, market


@pytest.mark.slow
def test_two_runs_with_one_seed_decide_the_same(run_market: RunMarket, undisturbed: Report) -> None:
    report = run_market()
    assert report["digests"] == undisturbed["digests"]
    assert_cycles_are_whole(report)


def test_the_kafka_run_decides_what_the_run_in_memory_decides(undisturbed: Report) -> None:
    scenario = load_scenario(Path(__file__).parents[2] / "scenarios" / "itp_week.toml")
    world = World(random.Random(5), scenario.log.partitions)
    for _ in world.replay(load_window(scenario, undisturbed["hours"], undisturbed["seed"])):
        pass
    assert world.digests() == undisturbed["digests"]


def test_another_seed_decides_otherwise(undisturbed: Report) -> None:
    """The canary of all the others: a digest that never changes would prove nothing."""
    scenario = load_scenario(Path(__file__).parents[2] / "scenarios" / "itp_week.toml")
    world = World(None, scenario.log.partitions)
    for _ in world.replay(load_window(scenario, 1, undisturbed["seed"] + 1)):
        pass
    digests = world.digests()
    assert all(digests[topic] != undisturbed["digests"][topic] for topic in digests)


@pytest.mark.slow
def test_killing_the_clearing_leader_again_and_again_changes_nothing(
    run_market: RunMarket, undisturbed: Report
) -> None:
    log: list[str] = []
    report = run_market(
        replicas={"clearing": 2},
        disturb=kill_leader("clearing", every_s=10, every_cycles=12, log=log),
        **FAST_ELECTION,
    )
    print(log)
    assert len(log) >= 3
    assert report["digests"] == undisturbed["digests"]
    assert_cycles_are_whole(report)


def test_a_frozen_clearing_leader_is_fenced_and_exits(
    run_market: RunMarket, undisturbed: Report
) -> None:
    log: list[Any] = []
    barriers: dict[int, set[bytes]] = {}

    async def inspect(running: Running) -> None:
        barriers.update(await epochs_of_barriers(running.broker.bootstrap, "prices"))

    report = run_market(
        replicas={"clearing": 2},
        disturb=freeze_leader("clearing", 15, log),
        inspect=inspect,
        **FAST_ELECTION,
    )
    print(log)
    assert isinstance(log[-1], tuple), "the zombie did not exit as fenced"
    assert report["digests"] == undisturbed["digests"]
    assert_cycles_are_whole(report)
    assert all(len(epochs) == 1 for epochs in barriers.values()), "a cycle was decided twice"
    assert len({next(iter(epochs)) for epochs in barriers.values()}) >= 2, "nobody took over"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20261129])
def test_killing_intake_and_placement_at_random_changes_nothing(
    run_market: RunMarket, undisturbed: Report, seed: int
) -> None:
    log: list[str] = []
    report = run_market(
        disturb=kill_at_random(["intake", "placement"], random.Random(seed), 12, log),
        **FAST_ELECTION,
    )
    print(seed, log)
    assert len(log) >= 3
    for name in ("intake", "placement"):
        assert any(line.endswith(f"killed {name}") for line in log), name
    assert report["digests"] == undisturbed["digests"]
    assert_cycles_are_whole(report)


def test_killing_the_broker_in_the_middle_changes_nothing(
    run_market: RunMarket, undisturbed: Report
) -> None:
    log: list[str] = []
    report = run_market(disturb=kill_server("broker", (15, 35), 0, log))
    assert log == ["killed broker", "restarted broker"] * 2
    assert report["digests"] == undisturbed["digests"]
    assert_cycles_are_whole(report)
