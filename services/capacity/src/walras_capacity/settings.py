"""Settings of capacity."""

from typing import ClassVar

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Capacity: what there is, whose it is, which nodes carry it; decided by the log alone."""

    SERVICE: ClassVar[str] = "capacity"
