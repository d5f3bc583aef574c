"""What use costs, line by line; what could not be charged, and why."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints, ValidationInfo, field_validator

from walras_contracts.event import Event
from walras_contracts.identifiers import Id, Text
from walras_contracts.quantities import (
    Count,
    LimitMicro,
    MarketTimeMs,
    Number,
    NumberOrNone,
    PositiveMacc,
    Ppm,
    PriceMicro,
)
from walras_contracts.work import WorkClass

CHARGE_ID_PATTERN = r"^[0-9a-f]{32}$"
MACC_MS_PATTERN = r"^(0|[1-9][0-9]{0,39})$"
NUMERATOR_PATTERN = r"^(0|-?[1-9][0-9]{0,59})$"

ChargeId = Annotated[str, StringConstraints(strict=True, pattern=CHARGE_ID_PATTERN)]
"""Name of a charge line, a function of what it charges."""
MaccMs = Annotated[str, StringConstraints(strict=True, pattern=MACC_MS_PATTERN)]
"""Decimal digits of a whole number of milli-accelerator-milliseconds."""
Numerator = Annotated[str, StringConstraints(strict=True, pattern=NUMERATOR_PATTERN)]
"""Decimal digits of a whole number of 1/(3.6·10¹⁵) µcr.

Text, because ordinary amounts exceed 64 bits: half of the JSON readers would make a float of it.
"""


class ChargeReason(StrEnum):
    """Why a charge line was written."""

    USAGE = "usage"
    """The first price of a time; all others correct such a line."""
    LATE_PRICE = "late_price"
    """A price became known for a time that was charged at another."""
    OVERLAP = "overlap"
    """A lower sequence number of the source claimed the time."""


class _OfUsage(Event):
    """A part ``[start_ms, end_ms)`` of a usage record."""

    team: Id
    pool: Id
    job: Id
    market: Id
    lease: Id
    node: Id
    attempt: Count
    seq: Number
    quantity_macc: PositiveMacc
    start_ms: MarketTimeMs
    end_ms: MarketTimeMs
    limit_micro: LimitMicro | None
    tariff_ppm: Ppm
    prices_until_ms: MarketTimeMs
    """The first line of a time rests on the prices known by the first barrier from here on."""

    @field_validator("end_ms", check_fields=False)
    @classmethod
    def _interval_is_not_empty(cls, end_ms: int, info: ValidationInfo) -> int:
        if "start_ms" in info.data and end_ms <= info.data["start_ms"]:
            raise ValueError("must be later than start_ms")
        return end_ms

    def partition_key(self) -> str:
        """By team."""
        return self.team


class ChargeRated(_OfUsage):
    """What a part of a usage record costs, or by how much an earlier line of it is corrected.

    The amount is ``(price_micro - previous_price_micro) × tariff_ppm × quantity_macc × (end_ms -
    start_ms)``, null counting as 0. The sum over a charge and its corrections is the amount at
    today's knowledge of the prices.
    """

    TYPE: ClassVar[str] = "walras.charge.rated.v1"
    TOPIC: ClassVar[str] = "charges"

    charge_id: ChargeId
    corrects: ChargeId | None
    """The charge that this line corrects; null: it is a charge itself."""
    reason: Annotated[ChargeReason, Field(strict=False)]
    work_class: Annotated[WorkClass, Field(strict=False)]
    billable: bool
    price_micro: PriceMicro | None
    """Charged from now on, at most the limit; null: nothing, or no longer known."""
    previous_price_micro: PriceMicro | None
    """Charged so far; null: nothing."""
    price_barrier: NumberOrNone
    """Barrier by which the price record became known; -1 where none was needed."""
    amount_numerator: Numerator

    def record_key(self) -> str:
        """Key: the id of the line."""
        return self.charge_id


class CreditReason(StrEnum):
    """Why a charge is given back."""

    DRAIN_FAILED = "drain_failed"
    """The drain of the lease failed; what it was charged from the warning on is given back."""
    HEARTBEAT_GAP = "heartbeat_gap"
    """Records behind this one never came: nothing shows that the work ran to its end."""


class ChargeCredited(_OfUsage):
    """Goodwill for a part of a usage record: linked to the charge it gives back, never merged."""

    TYPE: ClassVar[str] = "walras.charge.credited.v1"
    TOPIC: ClassVar[str] = "charges"

    charge_id: ChargeId
    """A function of the credited charge, the reason and the start."""
    credits: ChargeId
    """The charge line that is given back: a charge with its corrections so far, or one that came
    later."""
    reason: Annotated[CreditReason, Field(strict=False)]
    session: Text
    """The drain session; empty for a gap."""
    amount_numerator: Numerator
    """Less what the part is charged; above 0 only where it follows a later correction that lowers
    what was given back."""

    def record_key(self) -> str:
        """Key: the id of the line."""
        return self.charge_id


class ChargePending(_OfUsage):
    """A part of a usage record whose price is not known. A tombstone says that it was rated."""

    TYPE: ClassVar[str] = "walras.charge.pending.v1"
    TOPIC: ClassVar[str] = "charges.pending"

    def record_key(self) -> str:
        """Key: the usage record and the start of the part."""
        return pending_key(f"{self.lease}/{self.node}/{self.attempt}", self.seq, self.start_ms)


def pending_key(source: str, seq: int, start_ms: int) -> str:
    """Record key of a part of a usage record that waits for its price."""
    return f"{source}/{seq}/{start_ms}"


class UsageQuarantined(Event):
    """A usage record that is not charged, or a part of one, with its coordinates."""

    TYPE: ClassVar[str] = "walras.usage.quarantined.v1"
    TOPIC: ClassVar[str] = "usage.quarantined"

    code: Text
    reason: Text
    record: Text
    """Key of the record."""
    team: Id | None
    """As the record says; null: it says none that can be read."""
    pool: Id | None
    macc_ms: MaccMs | None
    """What is not charged, in milli-accelerator-milliseconds; null: the record does not say."""
    topic: Text
    partition: Number
    offset: NumberOrNone
    """Where the record stands; of a part: the record that showed that it is not to be charged, or
    -1 where time did."""
    start_ms: MarketTimeMs | None
    """Start of the part that is not charged; null: all of the record."""
    end_ms: MarketTimeMs | None

    def record_key(self) -> str:
        """Key: the coordinates of the record."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    def partition_key(self) -> str:
        """By coordinates; billing names its own partition explicitly."""
        return self.record_key()


class GapEnd(StrEnum):
    """What became of sequence numbers that were passed over."""

    FILLED = "filled"
    NEVER = "never"


class UsageGapReported(Event):
    """Numbers ``[first_seq, end_seq)`` of a usage source were missing, and what became of them."""

    TYPE: ClassVar[str] = "walras.usage.gap_reported.v1"
    TOPIC: ClassVar[str] = "usage.quarantined"

    team: Id
    lease: Id
    node: Id
    attempt: Count
    first_seq: Number
    end_seq: Number
    ended: Annotated[GapEnd, Field(strict=False)]

    def record_key(self) -> str:
        """Key: the source and the first number."""
        return f"{self.lease}/{self.node}/{self.attempt}/{self.first_seq}"

    def partition_key(self) -> str:
        """By team."""
        return self.team
