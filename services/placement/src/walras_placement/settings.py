"""Settings of the placement service."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Placement: which jobs run where, and which must leave; decided by the log alone."""

    SERVICE: ClassVar[str] = "placement"

    budget_grace_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 300_000
    """How long what runs for money stays when its team may not spend any more, of market time since
    placement was told; without quota it leaves before."""
