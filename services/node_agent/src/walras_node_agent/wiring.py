"""How the simulated fleet is wired to the log."""

from typing import Final

from walras_contracts.drains import VacateRequested
from walras_contracts.work import (
    DrainStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
    UsageMetered,
)
from walras_node_agent.drains import DrainRules
from walras_node_agent.handlers import FleetStage
from walras_node_agent.settings import Settings
from walras_runtime.stage import Input, StageSpec

FLEET_DONE: Final = "fleet.done"
"""Carries nothing but barriers: barrier n says that step n was simulated."""


def build(settings: Settings) -> StageSpec:
    """Return the stage's wiring."""
    interval_ms = settings.interval_ms
    rules = DrainRules(settings.vacate_grace_ms, settings.billing_grace_ms)
    return StageSpec(
        service=Settings.SERVICE,
        inputs=(Input(LeaseGranted.TOPIC), Input(VacateRequested.TOPIC)),
        outputs=(
            LeaseStatusChanged.TOPIC,
            UsageMetered.TOPIC,
            DrainStatusChanged.TOPIC,
            FLEET_DONE,
        ),
        build=lambda _partition: FleetStage(interval_ms, rules),
    )
