"""Settings of the placement service: those that every service has."""

from typing import ClassVar

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Placement: which jobs run where, and which must leave; decided by the log alone."""

    SERVICE: ClassVar[str] = "placement"
