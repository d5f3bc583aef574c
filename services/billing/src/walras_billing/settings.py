"""Settings of the billing service."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Billing: what each second costs, and what each team has."""

    SERVICE: ClassVar[str] = "billing"

    price_grace_ms: Annotated[int, Field(ge=0, le=86_400_000)] = 60_000
    """How long after its end usage is rated, and after a boundary it is settled; clearing's
    settlement lag contains it."""
    look_back_ms: Annotated[int, Field(ge=600_000)] = 86_400_000
    """How far back usage is accepted, told from repetitions and corrected; a day is some 300 bytes
    of memory for each minute of each lease part."""
    future_tolerance_ms: Annotated[int, Field(ge=0)] = 60_000
    """How far beyond the barrier behind it usage may end: how much agents' clocks may be ahead."""
    max_price_age_ms: Annotated[int, Field(ge=1)] | None = None
    """After this a price that no other followed is unknown; none: it stays in force."""

    price_wait_ms: Annotated[int, Field(ge=600_000)] = 3_024_000_000
    """How long use waits for a price that is not known, before it is quarantined; 35 days."""

    @model_validator(mode="after")
    def _usage_is_rated_before_it_is_forgotten(self) -> Self:
        if self.price_grace_ms >= self.look_back_ms:
            raise ValueError("price_grace_ms must be below look_back_ms")
        if self.price_wait_ms < self.look_back_ms:
            raise ValueError("price_wait_ms must not be below look_back_ms")
        return self
