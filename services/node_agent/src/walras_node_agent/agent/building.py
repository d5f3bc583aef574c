"""The names of what an agent keeps, and the rules that its settings make."""

from collections.abc import Mapping
from typing import Final

from walras_node_agent.agent.settings import AgentSettings
from walras_node_agent.part_life import Rules

PARTS: Final = "parts"
DEVICES: Final = "devices"
CHECKPOINTS: Final = "checkpoints"


def rules_of(settings: AgentSettings) -> Rules:
    """Return how long the steps take that no command says anything of."""
    return Rules(settings.leave_ms, settings.terminate_ms, settings.verify_ms)


def passed_of(settings: AgentSettings, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what jobs get of the agent's own environment."""
    names = [name.strip() for name in settings.passed_variables.split(",")]
    return {name: environment[name] for name in names if name in environment}


def checkpoints_of(settings: AgentSettings) -> str:
    """Return the directory below which jobs have theirs."""
    return settings.checkpoint_directory or f"{settings.state_directory}/{CHECKPOINTS}"
