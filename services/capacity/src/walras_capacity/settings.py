"""Settings of capacity."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Capacity: what there is, whose it is, which nodes carry it; decided by the log alone."""

    SERVICE: ClassVar[str] = "capacity"

    interval_ms: Annotated[int, Field(ge=1, le=3_600_000)] | None = None
    """Market time between barriers, as in the ticker: where they are further apart than two of it,
    nobody's silence counts; null: 5000 when live, 60000 in a replay."""

    def barrier_interval_ms(self) -> int:
        """Return the market time between barriers in force."""
        if self.interval_ms is not None:
            return self.interval_ms
        return 5_000 if self.mode == "live" else 60_000
