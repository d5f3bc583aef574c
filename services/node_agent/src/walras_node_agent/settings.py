"""Settings of the simulated fleet."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Simulated fleet: runs leases in market time, meters them, frees them."""

    SERVICE: ClassVar[str] = "node_agent"

    save_ms: Annotated[int, Field(ge=0, le=86_400_000)] | None = None
    """How soon after its warning a simulated job has saved and leaves; null: when that ends."""
    fail_drains_ppm: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Share of the drains whose devices are not free in time."""
