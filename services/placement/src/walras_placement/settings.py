"""Settings of the placement service."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_placement.rules import Rules
from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Placement: which jobs run where, and which must leave; decided by the log alone."""

    SERVICE: ClassVar[str] = "placement"

    held_back_cycles: Annotated[int, Field(ge=1, le=10_000)] = 10
    """How long a job that was evicted does not start again."""
    reserve_after_cycles: Annotated[int, Field(ge=1, le=10_000)] = 10
    """In a market with rounding ``reserve``: how long the first job of a queue waits before devices
    are kept for it."""
    budget_grace_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 300_000
    """How long what runs for money stays when its team may not spend any more, of market time since
    placement was told; without quota it leaves before."""

    def rules(self) -> Rules:
        """Return the durations that decisions use."""
        return Rules(
            budget_grace_ms=self.budget_grace_ms,
            cycle_every=self.barriers_per_cycle(),
            held_back_cycles=self.held_back_cycles,
            reserve_after_cycles=self.reserve_after_cycles,
        )
