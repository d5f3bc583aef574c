"""Settings of the drain service."""

from typing import ClassVar

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Drain: when and how leases leave, within the guardrail; its terms are in the log."""

    SERVICE: ClassVar[str] = "drain"
