"""How capacity is wired to the step loop."""

from walras_capacity.settings import Settings
from walras_capacity.stage import CapacityStage
from walras_contracts.accounts import AccountsChanged
from walras_contracts.capacity import (
    NodeHealthReported,
    NodeObserved,
    NodePublished,
    SupplyPublished,
)
from walras_contracts.dead_letters import DeadLettered
from walras_runtime.stage import Input, StageSpec


def build(settings: Settings) -> StageSpec:
    """Return capacity's wiring."""
    interval_ms = settings.barrier_interval_ms()
    return StageSpec(
        service=Settings.SERVICE,
        inputs=(
            Input(NodeObserved.TOPIC, raw=True),
            Input(NodeHealthReported.TOPIC, table=True),
            Input(AccountsChanged.TOPIC, lag=1, table=True),
        ),
        outputs=(SupplyPublished.TOPIC, NodePublished.TOPIC, DeadLettered.TOPIC),
        build=lambda _: CapacityStage(interval_ms),
    )
