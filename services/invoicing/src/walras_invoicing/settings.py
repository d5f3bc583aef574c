"""Settings of invoicing: those that every service has."""

from typing import ClassVar

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Invoicing decides by the log alone: periods, grace, approval are terms of the pools."""

    SERVICE: ClassVar[str] = "invoicing"
