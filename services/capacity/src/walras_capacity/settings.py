"""Settings of capacity: those that every service has."""

from typing import ClassVar

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Capacity decides by the log alone; nothing here changes what it decides."""

    SERVICE: ClassVar[str] = "capacity"
