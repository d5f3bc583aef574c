"""Settings of the simulated fleet."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Simulated fleet: runs leases in market time, meters them, frees them."""

    SERVICE: ClassVar[str] = "node_agent"

    interval_ms: Annotated[int, Field(ge=1, le=3_600_000)] = 60_000
    """Market time that a step simulates: the distance of barriers (replay 60000, live 5000)."""
    vacate_grace_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 60_000
    """How long a lease that was asked to leave runs on."""
    billing_grace_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 10_000
    """How long after the warning of a drain use is still billed."""
