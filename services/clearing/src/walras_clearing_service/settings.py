"""Settings of the clearing service."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Clears all markets at every `cycle_every`-th barrier."""

    SERVICE: ClassVar[str] = "clearing"

    cycle_every: Annotated[int, Field(ge=1, le=1000)] = 6
    """Barriers per cycle: 6 live (30 s), 1 in a replay."""
