"""Settings of the ticker."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """The ticker ends an interval of the log every few seconds of wall clock."""

    SERVICE: ClassVar[str] = "ticker"

    interval_ms: Annotated[int, Field(ge=100, le=3_600_000)] = 5_000
    """Time between two barriers; market times are multiples of it."""
