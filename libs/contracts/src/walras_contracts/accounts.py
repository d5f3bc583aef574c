"""Accounts: pools with their weight and teams, markets with their policies, platform defaults.

Each entity is one versioned document (step protocol §4). A request proposes a document; intake
fixes its version and when it takes effect.
"""

from enum import StrEnum
from functools import cache
from typing import Annotated, ClassVar, Literal
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, StringConstraints

from walras_contracts.event import Event, Part
from walras_contracts.identifiers import Id
from walras_contracts.quantities import (
    BALANCE_HOURS_MAX,
    MICRO_MAX,
    PPM,
    Count,
    DurationMs,
    LimitMicro,
    LocalPerHour,
    MarketTimeMs,
    MicroPerHour,
    Number,
    Ppm,
)
from walras_contracts.sequences import Distinct

ZONE_PATTERN = r"^[A-Za-z][A-Za-z0-9_+/-]{0,63}$"
_zones = cache(available_timezones)


def _known_zone(name: str) -> str:
    if name not in _zones():
        raise ValueError("must be the name of an IANA time zone, such as Europe/Budapest")
    return name


ZoneName = Annotated[
    str,
    StringConstraints(strict=True, pattern=ZONE_PATTERN),
    AfterValidator(_known_zone),
]
"""Name of an IANA time zone."""
BudgetMicro = Annotated[int, Field(strict=True, ge=1, le=MICRO_MAX)]
PositiveMs = Annotated[int, Field(strict=True, ge=1, le=366 * 86_400_000)]
PositivePpm = Annotated[int, Field(strict=True, ge=1, le=PPM)]


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


class Rounding(StrEnum):
    """How a team's divisible quota is spent on whole jobs (design §5)."""

    BACKFILL = "backfill"
    """What does not fit is passed over."""
    RELEASE = "release"
    """The demand of a team with quota that it cannot spend is cut to whole jobs."""
    RESERVE = "reserve"
    """Devices that become free are kept for the first job of the queue that waits long."""


class QueueOrder(StrEnum):
    """In which order a team's jobs spend its quota."""

    POSITION = "position"
    DEADLINE = "deadline"
    """Earliest deadline first, those without one after them by position."""


class BillingPeriod(StrEnum):
    """A calendar window in a zone."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class PriceGapPolicy(StrEnum):
    """What use costs in a time for which the market, after an outage, has no prices."""

    UNBILLED = "unbilled"
    CARRY_LAST = "carry_last"


class TeamBudget(Part):
    """What a team may spend in a window of the calendar, in the zone of its pool.

    At each of ``alert_ppm`` of the limit an alert is published; at the limit, with ``hard_stop``,
    nothing of the team is started, and what runs is drained after the stated grace.
    """

    window: Annotated[BillingPeriod, Field(strict=False)]
    limit_micro: BudgetMicro
    hard_stop: bool = True
    alert_ppm: Annotated[tuple[Ppm, ...], Field(max_length=10, strict=False), Distinct()] = (
        500_000,
        800_000,
        1_000_000,
    )


class BillingTerms(Part):
    """How a pool is invoiced."""

    zone: ZoneName = "UTC"
    """Zone of its invoice periods and budget windows (IANA name)."""
    period: Annotated[BillingPeriod, Field(strict=False)] = BillingPeriod.MONTH
    grace_ms: DurationMs = 3_600_000
    """How long after the end of a period late usage still changes the draft."""
    look_back_ms: DurationMs = 604_800_000
    """How far back late usage may reach once the invoice is issued; older is rejected."""
    approval: bool = False
    """Whether a due draft waits for finance."""


class TeamAccount(Part):
    """A team of a pool."""

    team: Id
    income_local_per_hour: LocalPerHour
    leverage_ppm: Ppm = 2 * PPM
    budgets: Annotated[
        tuple[TeamBudget, ...], Field(max_length=3, strict=False), Distinct("window")
    ] = ()
    queue_order: Annotated[QueueOrder, Field(strict=False)] = QueueOrder.POSITION


class PoolDocument(Part):
    """A business unit: its purchasing power and its teams."""

    kind: Literal["pool"] = "pool"
    pool: Id
    weight_micro_per_hour: MicroPerHour
    leverage_ppm: Ppm = 2 * PPM
    billing: BillingTerms = BillingTerms()
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
    price_gap: Annotated[PriceGapPolicy, Field(strict=False)] = PriceGapPolicy.UNBILLED
    rounding: Annotated[Rounding, Field(strict=False)] = Rounding.BACKFILL

    def entity(self) -> str:
        """Key of the document."""
        return f"market/{self.market}"


class DrainTerms(Part):
    """The guardrail of drains, and what starts them (design §5). Nothing here may be zero."""

    warning_ms: PositiveMs = 60_000
    """From the warning to SIGTERM, where the job does not end before."""
    terminate_ms: PositiveMs = 30_000
    """From SIGTERM to SIGKILL."""
    verify_ms: PositiveMs = 10_000
    """To see the devices free."""
    billing_grace_ms: PositiveMs = 10_000
    maximum_delay_ms: PositiveMs = 600_000
    """How long the disruption budget may hold a drain up."""
    disruption_ppm: PositivePpm = 300_000
    """Part of what a team holds that may be drained within the window; one job always may."""
    disruption_window_ms: PositiveMs = 600_000
    minimum_distance_ms: PositiveMs = 600_000
    """Between two drains of one job."""
    pressure_ppm: PositivePpm = 920_000
    """From this use of a market on, drainable opportunistic work is asked to leave."""
    low_use_ppm: PositivePpm = 200_000
    low_use_ms: PositiveMs = 300_000
    """A drainable job that stays below ``low_use_ppm`` for so long is asked to leave."""
    advisory_ms: PositiveMs = 300_000
    """After so long an advisory expires."""
    lease_timeout_ms: PositiveMs = 90_000
    """A node that is silent for so long is lost."""


class PlatformDocument(Part):
    """Defaults of the platform and the bidder's parameters (design §4)."""

    kind: Literal["platform"] = "platform"
    minimum_affordable_minutes: Annotated[int, Field(strict=True, ge=1, le=10_080)] = 120
    move_gap_ppm: Ppm = 100_000
    move_share_ppm: Ppm = 62_500
    retention_gap_ppm: Ppm = 100_000
    unplaceable_after_cycles: Count = 10
    max_balance_hours: Annotated[int, Field(strict=True, ge=1, le=BALANCE_HOURS_MAX)] = 168
    drains: DrainTerms = DrainTerms()

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
