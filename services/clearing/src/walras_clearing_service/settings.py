"""Settings of the clearing service."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Clears all markets at every `cycle_every`-th barrier."""

    SERVICE: ClassVar[str] = "clearing"

    cycle_every: Annotated[int, Field(ge=1, le=1000)] = 6
    """Barriers per cycle: 6 live (30 s), 1 in a replay."""
    interval_ms: Annotated[int, Field(ge=1, le=3_600_000)] | None = None
    """Market time between barriers, as in the ticker; null: 5000 when live, 60000 in a replay."""

    def barrier_interval_ms(self) -> int:
        """Return the market time between barriers in force."""
        if self.interval_ms is not None:
            return self.interval_ms
        return 5_000 if self.mode == "live" else 60_000
