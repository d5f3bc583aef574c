"""Settings of the snapshot service."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Keeps the last good quotas and the contracted floor in Redis."""

    SERVICE: ClassVar[str] = "snapshot"

    check_interval_ms: Annotated[int, Field(ge=50, le=60_000)] = 2_000
    """How often Redis is checked, and rewritten where it is empty."""
    redis_timeout_ms: Annotated[int, Field(ge=50, le=60_000)] = 1_000
    """How long one command to Redis may take."""
