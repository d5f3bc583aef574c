"""How intake is wired to the step loop."""

from walras_contracts.topics import load_topics
from walras_intake.settings import Settings
from walras_intake.stage import IntakeStage
from walras_runtime.stage import Input, StageSpec


def build(settings: Settings) -> StageSpec:
    """Return intake's wiring: one stage per partition of teams."""
    partitions = load_topics(settings.partitions)["demand"].partitions
    return StageSpec(
        service="intake",
        inputs=(
            Input("accounts", lag=1, table=True, may_be_late=False),
            Input("job.status", own_partition=True, lag=1, may_be_late=False),
            # All partitions: whether a team is in two pools shows only in all requests together.
            Input("accounts.requests", raw=True, may_be_late=False),
            Input("demand", own_partition=True, raw=True, may_be_late=False),
        ),
        outputs=("queue", "accounts", "demand.rejected"),
        build=lambda partition: IntakeStage(partition, partitions),
        spread=True,
    )
