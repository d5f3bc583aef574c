"""How the simulated fleet is wired to the log."""

from typing import Final

from walras_contracts.drains import DrainCommanded
from walras_contracts.work import (
    DrainStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
    UsageMetered,
)
from walras_node_agent.drains import Behaviour
from walras_node_agent.handlers import FleetStage
from walras_node_agent.settings import Settings
from walras_runtime.stage import Input, StageSpec

FLEET_DONE: Final = "fleet.done"
"""Carries nothing but barriers: barrier n says that step n was simulated."""


def build(settings: Settings) -> StageSpec:
    """Return the stage's wiring."""
    interval_ms = settings.barrier_interval_ms()
    behaviour = Behaviour(settings.save_ms, settings.fail_drains_ppm)
    return StageSpec(
        service=Settings.SERVICE,
        inputs=(Input(LeaseGranted.TOPIC), Input(DrainCommanded.TOPIC)),
        outputs=(
            LeaseStatusChanged.TOPIC,
            UsageMetered.TOPIC,
            DrainStatusChanged.TOPIC,
            FLEET_DONE,
        ),
        build=lambda _partition: FleetStage(interval_ms, behaviour),
    )
