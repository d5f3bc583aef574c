"""Settings of the billing service."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Billing: what each second costs, and what each team has."""

    SERVICE: ClassVar[str] = "billing"

    price_grace_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 60_000
    """How long after a settlement boundary it is settled; clearing's settlement lag contains it."""
    price_memory_ms: Annotated[int, Field(ge=600_000)] = 86_400_000
    """How long superseded prices are kept for usage that arrives late."""
