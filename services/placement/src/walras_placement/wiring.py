"""How placement is wired to the log."""

from walras_contracts.accounts import AccountsChanged
from walras_contracts.capacity import NodePublished
from walras_contracts.demand import JobQueued
from walras_contracts.drains import VacateRequested
from walras_contracts.market import QuotaGranted
from walras_contracts.money import BudgetPublished
from walras_contracts.work import (
    JobStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
)
from walras_placement.handlers import PlacementStage
from walras_placement.settings import Settings
from walras_runtime.stage import Input, StageSpec


def build(settings: Settings) -> StageSpec:
    """Return the stage's wiring."""
    return StageSpec(
        service=Settings.SERVICE,
        inputs=(
            Input(AccountsChanged.TOPIC, table=True),
            Input(NodePublished.TOPIC, table=True),
            Input(QuotaGranted.TOPIC, table=True),
            Input(JobQueued.TOPIC, table=True),
            Input(LeaseStatusChanged.TOPIC),
            Input(BudgetPublished.TOPIC, lag=1, table=True),
        ),
        outputs=(LeaseGranted.TOPIC, VacateRequested.TOPIC, JobStatusChanged.TOPIC),
        build=lambda _partition: PlacementStage(settings.budget_grace_ms),
    )
