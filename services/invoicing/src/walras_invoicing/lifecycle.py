"""Where an invoice stands and what moves it: one table, every pair of state and event in it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from walras_contracts.invoices import InvoiceAction, InvoiceState


class Status(StrEnum):
    """Where an invoice stands; the contract calls the first three a draft."""

    DRAFT = "draft"
    HELD = "held"
    """Finance keeps it from being issued."""
    WAITING = "waiting"
    """It is due, and waits for finance to approve it."""
    ISSUED = "issued"
    VOIDED = "voided"

    @property
    def state(self) -> InvoiceState:
        """What the contract calls it."""
        return InvoiceState(self.value) if self in ENDED else InvoiceState.DRAFT


ENDED: Final = (Status.ISSUED, Status.VOIDED)


class Happening(StrEnum):
    """What can happen to an invoice."""

    DUE = "due"
    """Its due time has passed; told again in each step until it is issued."""
    DUE_FOR_APPROVAL = "due_for_approval"
    """The same, where the pool wants finance to approve."""
    HOLD = "hold"
    RELEASE = "release"
    APPROVE = "approve"
    VOID = "void"


class Refusal(StrEnum):
    """Why a request changes nothing; a retired code keeps its name."""

    UNKNOWN_INVOICE = "unknown_invoice"
    NOT_DUE = "not_due"
    NOT_ISSUED = "not_issued"
    HELD = "held"
    ISSUED = "issued"
    VOIDED = "voided"
    LEDGER_DIFFERS = "ledger_differs"


REASONS: Final[Mapping[Refusal, str]] = {
    Refusal.UNKNOWN_INVOICE: "no such invoice, or one issued longer ago than the pool's look-back",
    Refusal.NOT_DUE: "the period and its grace have not passed",
    Refusal.NOT_ISSUED: "only an issued invoice can be voided; a draft can be held",
    Refusal.HELD: "the invoice, or that of its pool, is held; release it first",
    Refusal.ISSUED: "the invoice is issued; it can only be voided",
    Refusal.VOIDED: "the invoice is voided, and stays so",
    Refusal.LEDGER_DIFFERS: "the ledger does not have what the charges say; nothing is issued",
}

S, H, R = Status, Happening, Refusal
TABLE: Final[Mapping[tuple[Status, Happening], Status | Refusal]] = {
    (S.DRAFT, H.DUE): S.ISSUED,
    (S.DRAFT, H.DUE_FOR_APPROVAL): S.WAITING,
    (S.DRAFT, H.HOLD): S.HELD,
    (S.DRAFT, H.RELEASE): S.DRAFT,
    (S.DRAFT, H.APPROVE): R.NOT_DUE,
    (S.DRAFT, H.VOID): R.NOT_ISSUED,
    (S.HELD, H.DUE): S.HELD,
    (S.HELD, H.DUE_FOR_APPROVAL): S.HELD,
    (S.HELD, H.HOLD): S.HELD,
    (S.HELD, H.RELEASE): S.DRAFT,
    (S.HELD, H.APPROVE): R.HELD,
    (S.HELD, H.VOID): R.NOT_ISSUED,
    (S.WAITING, H.DUE): S.ISSUED,
    (S.WAITING, H.DUE_FOR_APPROVAL): S.WAITING,
    (S.WAITING, H.HOLD): S.HELD,
    (S.WAITING, H.RELEASE): S.WAITING,
    (S.WAITING, H.APPROVE): S.ISSUED,
    (S.WAITING, H.VOID): R.NOT_ISSUED,
    (S.ISSUED, H.DUE): S.ISSUED,
    (S.ISSUED, H.DUE_FOR_APPROVAL): S.ISSUED,
    (S.ISSUED, H.HOLD): R.ISSUED,
    (S.ISSUED, H.RELEASE): S.ISSUED,
    (S.ISSUED, H.APPROVE): S.ISSUED,
    (S.ISSUED, H.VOID): S.VOIDED,
    (S.VOIDED, H.DUE): S.VOIDED,
    (S.VOIDED, H.DUE_FOR_APPROVAL): S.VOIDED,
    (S.VOIDED, H.HOLD): R.VOIDED,
    (S.VOIDED, H.RELEASE): R.VOIDED,
    (S.VOIDED, H.APPROVE): R.VOIDED,
    (S.VOIDED, H.VOID): S.VOIDED,
}
"""The same state again: nothing happens, and nobody is told that he asked twice."""

HAPPENINGS: Final[Mapping[InvoiceAction, Happening]] = {
    InvoiceAction.HOLD: H.HOLD,
    InvoiceAction.RELEASE: H.RELEASE,
    InvoiceAction.APPROVE: H.APPROVE,
    InvoiceAction.VOID: H.VOID,
}
