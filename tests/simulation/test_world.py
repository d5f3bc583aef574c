"""The whole market on the log in memory: crashes, compaction, order and layout change nothing."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.world import World
from walras.scenario import load_scenario
from walras.trace import Replay, load_window
from walras_runtime.memory.runner import state_digest_input

SCENARIO = Path(__file__).parents[2] / "scenarios" / "itp_week.toml"
STEPS = 40
SERVICES = ("intake", "capacity", "clearing", "placement", "node_agent", "billing")


@pytest.fixture(scope="module")
def replay() -> Replay:
    return load_window(load_scenario(SCENARIO), 1, 1)


@pytest.fixture(scope="module")
def plain(replay: Replay) -> World:
    """Return the world in which nothing is disturbed."""
    world = World()
    for _ in first(world.replay(replay)):
        pass
    return world


def first(steps: Iterator[int]) -> Iterator[int]:
    """Yield the first steps only."""
    for number in steps:
        yield number
        if number == STEPS:
            return


def decisions(world: World) -> set[tuple[str, Any]]:
    """Return what was decided, without where it stands on the log."""
    return {
        (topic, entry.payload)
        for topic in ("prices", "quotas")
        for partition in world.log.partitions(topic)
        for entry in world.log.read(topic, partition, 0)
        if entry.barrier is None
    }


@pytest.mark.parametrize("seed", range(3))
def test_crashes_at_random_and_any_order_of_moves_change_no_decision(
    replay: Replay, plain: World, seed: int
) -> None:
    chooser = random.Random(seed)
    world = World(random.Random(seed))
    crashes = 0
    for _ in first(world.replay(replay)):
        for name in sorted(world.runners):
            if chooser.random() < 0.1:
                world.crash(name)
                crashes += 1
    assert crashes > STEPS / 2
    assert world.digests() == plain.digests()
    for service in SERVICES:
        assert state_digest_input(world.log, service) == state_digest_input(plain.log, service)


def test_compaction_of_every_topic_and_a_rebuild_from_the_log_change_no_decision(
    replay: Replay, plain: World
) -> None:
    world = World()
    for number in first(world.replay(replay)):
        if number % 10 == 9:
            world.compact()
            for name in sorted(world.runners):
                world.crash(name)
    assert decisions(world) <= decisions(plain)
    prices = {p for t, p in decisions(plain) if t == "prices"}
    assert {p for t, p in decisions(world) if t == "prices"} == prices
    for service in SERVICES:
        assert state_digest_input(world.log, service) == state_digest_input(plain.log, service)


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_partition_count_changes_no_decision(
    replay: Replay, plain: World, partitions: int
) -> None:
    world = World(None, partitions)
    for _ in first(world.replay(replay)):
        pass
    assert decisions(world) == decisions(plain)


def test_a_forgotten_state_change_is_noticed(replay: Replay, plain: World) -> None:
    """The canary: a clearing stage that loses its last prices when it crashes decides otherwise."""
    world = World()
    for number in first(world.replay(replay)):
        if number == STEPS // 2:
            world.crash("clearing/0")
            state: Any = world.runners["clearing/0"].stage
            state.state.last.clear()
    assert world.digests() != plain.digests()


def test_money_is_conserved(plain: World) -> None:
    wallets = 0
    for partition in plain.log.partitions("balances"):
        latest = {e.key: e.payload for e in plain.log.read("balances", partition, 0) if e.payload}
        for payload in latest.values():
            b = json.loads(payload)
            assert b["wallet_micro"] == b["earned_micro"] - b["spent_micro"] - b["expired_micro"]
            wallets += 1
    assert wallets == 25
