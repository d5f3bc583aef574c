"""How the drain service is wired to the log."""

from walras_contracts.accounts import AccountsChanged
from walras_contracts.capacity import NodeHealthReported, NodePublished
from walras_contracts.drains import (
    DrainabilityScored,
    DrainCommanded,
    DrainOrdered,
    DrainRequested,
    DrainSessionChanged,
    NotificationIssued,
    VacateRequested,
)
from walras_contracts.work import DrainStatusChanged, LeaseGranted, LeaseStatusChanged
from walras_drain.handlers import DrainStage
from walras_drain.settings import Settings
from walras_runtime.stage import Input, StageSpec


def build(settings: Settings) -> StageSpec:
    """Return the stage's wiring."""
    interval_ms = settings.barrier_interval_ms()
    return StageSpec(
        service=Settings.SERVICE,
        inputs=(
            Input(AccountsChanged.TOPIC, table=True),
            Input(NodePublished.TOPIC, table=True),
            Input(LeaseGranted.TOPIC, table=True),
            Input(VacateRequested.TOPIC),
            Input(LeaseStatusChanged.TOPIC),
            Input(DrainStatusChanged.TOPIC),
            Input(NodeHealthReported.TOPIC),
            Input(DrainOrdered.TOPIC),
        ),
        outputs=(
            DrainCommanded.TOPIC,
            DrainRequested.TOPIC,
            DrainSessionChanged.TOPIC,
            DrainabilityScored.TOPIC,
            NotificationIssued.TOPIC,
        ),
        build=lambda _partition: DrainStage(interval_ms),
    )
