"""Accounts: pools with their weight and teams, markets with their policies, platform defaults.

Each entity is one versioned document (step protocol §4). A request proposes a document; intake
fixes its version and when it takes effect.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from walras_contracts.event import Event, Part
from walras_contracts.identifiers import Id
from walras_contracts.quantities import (
    BALANCE_HOURS_MAX,
    PPM,
    Count,
    LimitMicro,
    LocalPerHour,
    MarketTimeMs,
    MicroPerHour,
    Number,
    Ppm,
)
from walras_contracts.sequences import Distinct


class Gate(StrEnum):
    """Whether a market sells."""

    OFF = "off"
    SHADOW = "shadow"
    ON = "on"


class Margin(StrEnum):
    """How the marginal quantity is shared (design §4)."""

    PRO_RATA = "pro_rata"
    STRICT_ORDER = "strict_order"


class IdleOwnSupply(StrEnum):
    """What happens to own supply that its pool does not ask for."""

    KEEP = "keep"
    LEND = "lend"


class TeamAccount(Part):
    """A team of a pool."""

    team: Id
    income_local_per_hour: LocalPerHour
    leverage_ppm: Ppm = 2 * PPM


class PoolDocument(Part):
    """A business unit: its purchasing power and its teams."""

    kind: Literal["pool"] = "pool"
    pool: Id
    weight_micro_per_hour: MicroPerHour
    leverage_ppm: Ppm = 2 * PPM
    teams: Annotated[
        tuple[TeamAccount, ...], Field(max_length=10_000, strict=False), Distinct("team")
    ]

    def entity(self) -> str:
        """Key of the document."""
        return f"pool/{self.pool}"


class MarketDocument(Part):
    """Policies of one market."""

    kind: Literal["market"] = "market"
    market: Id
    gate: Annotated[Gate, Field(strict=False)] = Gate.ON
    margin: Annotated[Margin, Field(strict=False)] = Margin.PRO_RATA
    idle_own_supply: Annotated[IdleOwnSupply, Field(strict=False)] = IdleOwnSupply.LEND
    reserve_price_micro: LimitMicro = 0

    def entity(self) -> str:
        """Key of the document."""
        return f"market/{self.market}"


class PlatformDocument(Part):
    """Defaults of the platform and the bidder's parameters (design §4)."""

    kind: Literal["platform"] = "platform"
    minimum_affordable_minutes: Annotated[int, Field(strict=True, ge=1, le=10_080)] = 120
    move_gap_ppm: Ppm = 100_000
    move_share_ppm: Ppm = 62_500
    retention_gap_ppm: Ppm = 100_000
    unplaceable_after_cycles: Count = 10
    max_balance_hours: Annotated[int, Field(strict=True, ge=1, le=BALANCE_HOURS_MAX)] = 168

    def entity(self) -> str:
        """Key of the document."""
        return "platform"


Document = Annotated[PoolDocument | MarketDocument | PlatformDocument, Field(discriminator="kind")]


class AccountsRequested(Event):
    """An administrator proposes a document."""

    TYPE: ClassVar[str] = "walras.accounts.requested.v1"
    TOPIC: ClassVar[str] = "accounts.requests"

    document: Document

    def record_key(self) -> str:
        """Key: the entity."""
        return self.document.entity()

    def partition_key(self) -> str:
        """By entity."""
        return self.document.entity()


class AccountsChanged(Event):
    """A document with its version and the market time from which it counts."""

    TYPE: ClassVar[str] = "walras.accounts.changed.v1"
    TOPIC: ClassVar[str] = "accounts"

    version: Number
    effective_ms: MarketTimeMs
    document: Document

    def record_key(self) -> str:
        """Key: the entity."""
        return self.document.entity()

    def partition_key(self) -> str:
        """By entity."""
        return self.document.entity()
