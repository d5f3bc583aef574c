"""Settings of the clearing service."""

from typing import ClassVar

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Clears all markets in every cycle."""

    SERVICE: ClassVar[str] = "clearing"
