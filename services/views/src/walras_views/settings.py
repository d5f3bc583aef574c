"""Settings of the views service."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    """Serves the latest prices, wallets and cycles as JSON."""

    SERVICE: ClassVar[str] = "views"

    http_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address at which the board is served: loopback only, or 0.0.0.0 in a container."""
    http_port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    """Port of the board; 0: any free one, named in the log and in /healthz."""
    history_cycles: Annotated[int, Field(ge=1, le=100_000)] = 1_440
    """Cycles kept per market."""
    window_s: Annotated[int, Field(ge=1, le=86_400)] = 600
    """Length of a tumbling window, seconds of market time."""
