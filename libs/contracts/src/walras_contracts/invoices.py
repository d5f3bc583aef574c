"""Invoices of pools and teams, and what finance asks of them."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from walras_contracts.accounts import BillingPeriod, ZoneName
from walras_contracts.charges import ChargeId, MaccMs, Numerator
from walras_contracts.event import Event, Part
from walras_contracts.identifiers import Id, Text
from walras_contracts.quantities import Count, MarketTimeMs, Micro, Number, PriceMicro
from walras_contracts.work import WorkClass

LINES_MAX: Final = 1_200
"""So many lines make a record of well below 1 MiB, the largest that a broker takes."""


class InvoiceState(StrEnum):
    """Where an invoice stands: draft → issued → voided; nothing leads back."""

    DRAFT = "draft"
    ISSUED = "issued"
    VOIDED = "voided"


class InvoiceLineKind(StrEnum):
    """What a line is for."""

    USAGE = "usage"
    """Use within the period of the invoice."""
    CORRECTION = "correction"
    """Use that changes what another invoice says: late use, late prices and overlaps of an earlier
    period that was due, the use of a voided invoice, and what is taken back without having been on
    this draft."""
    CREDIT = "credit"
    """Goodwill."""
    UNBILLED = "unbilled"
    """Use that costs nothing: after the billing grace of a drain, or opportunistic."""


class InvoiceLine(Part):
    """Charges of one job that share everything but their times.

    ``amount_micro`` are whole µcr that sum to the invoice's ``payable_micro`` (largest remainder).
    An invoice has at most :data:`LINES_MAX` lines. Where it would have more, its lines leave out
    one after the other, until there are few enough: the price, the job, on a pool's invoice the
    team, the period of the use, the class, the market. What is left out is null.
    """

    kind: Annotated[InvoiceLineKind, Field(strict=False)]
    team: Id | None
    """Null only where a pool's invoice leaves it out."""
    job: Id | None
    """Null where it is left out, and on a pool's invoice, which does not name jobs."""
    market: Id | None
    """Null where it is left out."""
    work_class: Annotated[WorkClass, Field(strict=False)] | None
    """Null where it is left out. A credit says ``market``: charges say more."""
    price_micro: PriceMicro | None
    """Null where it is left out, and on corrections and credits, being differences."""
    period_start_ms: MarketTimeMs | None
    """Start of the period that the use lies in; null where it is left out."""
    first_ms: MarketTimeMs
    last_ms: MarketTimeMs
    """The use lies within ``[first_ms, last_ms)``."""
    macc_ms: MaccMs
    """What is used; of corrections and credits: what they concern."""
    charges: Count
    """How many charges, corrections and credits are in it. One over the border of periods counts
    with its first part, a correction of a draft on the line of its new price."""
    amount_numerator: Numerator
    amount_micro: Micro


class InvoicePublished(Event):
    """An invoice of a team or of a pool over ``[start_ms, end_ms)``, as of a revision.

    The latest revision of an id is the invoice. A pool's invoice sums up those of its teams.
    """

    TYPE: ClassVar[str] = "walras.invoice.published.v1"
    TOPIC: ClassVar[str] = "invoices"

    invoice_id: ChargeId
    """A function of scope, pool, team, period and start."""
    revision: Number
    """From 0; the issued one is final up to a void."""
    scope: Literal["team", "pool"]
    pool: Id
    team: Id | None
    """Null on a pool's invoice."""
    state: Annotated[InvoiceState, Field(strict=False)]
    held: bool
    """A draft that finance keeps from being issued."""
    reason: Text
    """Why it is held or was voided; empty otherwise."""
    period: Annotated[BillingPeriod, Field(strict=False)]
    zone: ZoneName
    start_ms: MarketTimeMs
    end_ms: MarketTimeMs
    due_ms: MarketTimeMs
    """From when it is issued: the end of the period and the pool's grace."""
    at_ms: MarketTimeMs
    """Market time of the step that made this revision."""
    lines: Annotated[tuple[InvoiceLine, ...], Field(strict=False)]
    amount_numerator: Numerator
    """Exact sum of the lines."""
    payable_micro: Micro
    rejected_late_macc_ms: MaccMs
    """Use that came too late to be charged, in this invoice's time of issue."""
    pending_macc_ms: MaccMs
    """Use of the period whose price is not known yet; it will be a correction."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if sum(line.amount_micro for line in self.lines) != self.payable_micro:
            raise ValueError("the lines do not sum to payable_micro")
        if sum(int(line.amount_numerator) for line in self.lines) != int(self.amount_numerator):
            raise ValueError("the lines do not sum to amount_numerator")
        if (self.scope == "team") != (self.team is not None):
            raise ValueError("a team is named where the scope is team, and only there")
        if self.end_ms <= self.start_ms:
            raise ValueError("end_ms must be later than start_ms")
        return self

    def record_key(self) -> str:
        """Key: the id of the invoice."""
        return self.invoice_id

    def partition_key(self) -> str:
        """By pool."""
        return self.pool


class InvoiceAction(StrEnum):
    """What finance asks for."""

    HOLD = "hold"
    RELEASE = "release"
    APPROVE = "approve"
    """Issue a due draft whose pool wants approval."""
    VOID = "void"


class InvoiceRequested(Event):
    """Finance holds, releases, approves or voids an invoice; again is the same as once."""

    TYPE: ClassVar[str] = "walras.invoice.requested.v1"
    TOPIC: ClassVar[str] = "invoices.requests"

    invoice_id: ChargeId
    action: Annotated[InvoiceAction, Field(strict=False)]
    reason: Text

    def record_key(self) -> str:
        """Key: the invoice."""
        return self.invoice_id

    def partition_key(self) -> str:
        """By invoice."""
        return self.invoice_id


class InvoiceRefused(Event):
    """A request that changes nothing: no such invoice, or not from the state it is in."""

    TYPE: ClassVar[str] = "walras.invoice.refused.v1"
    TOPIC: ClassVar[str] = "invoices"

    invoice_id: ChargeId
    action: Annotated[InvoiceAction, Field(strict=False)]
    code: Text
    reason: Text
    at_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: the invoice."""
        return self.invoice_id

    def partition_key(self) -> str:
        """By invoice."""
        return self.invoice_id
