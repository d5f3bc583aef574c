"""Settings of the ticker."""

from typing import ClassVar

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """The ticker ends an interval of the log every few seconds of wall clock."""

    SERVICE: ClassVar[str] = "ticker"
