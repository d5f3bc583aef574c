"""Settings of the drain service."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Drain: when and how leases leave, within the guardrail; its terms are in the log."""

    SERVICE: ClassVar[str] = "drain"

    interval_ms: Annotated[int, Field(ge=1, le=3_600_000)] | None = None
    """Market time between barriers, as in the ticker: deadlines are rounded up to it, and a hole is
    more than two of it; null: 5000 when live, 60000 in a replay."""

    def barrier_interval_ms(self) -> int:
        """Return the market time between barriers in force."""
        if self.interval_ms is not None:
            return self.interval_ms
        return 5_000 if self.mode == "live" else 60_000
