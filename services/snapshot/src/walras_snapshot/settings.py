"""Settings of the snapshot service."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Keeps the last good quotas and the contracted floor in Redis."""

    SERVICE: ClassVar[str] = "snapshot"

    cycle_every: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Barriers per cycle, as in clearing; null: 6 when live, 1 in a replay."""
    check_interval_ms: Annotated[int, Field(ge=50, le=60_000)] = 2_000
    """How often Redis is checked, and rewritten where it is empty."""
    redis_timeout_ms: Annotated[int, Field(ge=50, le=60_000)] = 1_000
    """How long one command to Redis may take."""

    def barriers_per_cycle(self) -> int:
        """Return the barriers per cycle in force."""
        if self.cycle_every is not None:
            return self.cycle_every
        return 6 if self.mode == "live" else 1
