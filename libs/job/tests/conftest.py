"""A node agent for each test, and an environment outside Walras."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.job.tests.agent_side import Agent


@pytest.fixture(autouse=True)
def outside_walras(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("WALRAS_") and name != "WALRAS_SEED":
            monkeypatch.delenv(name)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    there = Agent(tmp_path / "control", tmp_path / "checkpoints")
    yield there
    there.end()


@pytest.fixture
def as_part(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """Make this process a part of that agent."""
    for name, text in agent.part.to_environment().items():
        monkeypatch.setenv(name, text)
    return agent
