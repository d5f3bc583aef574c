"""A small hour of the market decided in memory: what each service must write on a real broker."""

from pathlib import Path

import pytest

from tests.simulation.world import World
from walras.scenario import load_scenario
from walras.trace import load_window

SCENARIO = Path(__file__).parents[2] / "scenarios" / "itp_week.toml"
STEPS = 20


@pytest.fixture(scope="session")
def small_world() -> World:
    """Return the log of the scenario's first steps, decided in memory."""
    replay = load_window(load_scenario(SCENARIO), 1, 1)
    world = World()
    for number in world.replay(replay):
        if number == STEPS:
            break
    return world
