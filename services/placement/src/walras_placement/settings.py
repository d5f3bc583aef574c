"""Settings of the placement service."""

from typing import Annotated, ClassVar

from pydantic import Field

from walras_contracts.accounts import PlatformDocument
from walras_contracts.quantities import PPM
from walras_runtime.settings import ServiceSettings

RETENTION_GAP_PPM = PlatformDocument().retention_gap_ppm


class Settings(ServiceSettings):
    """Placement: which jobs run where, and which must leave."""

    SERVICE: ClassVar[str] = "placement"

    retention_gap_ppm: Annotated[int, Field(ge=0, le=1000 * PPM)] = RETENTION_GAP_PPM
    """By how much a running job's limit counts as raised within its minimum run time; must equal
    the platform document's value, by which the auction raised it."""
