"""What is remembered of invoices: a book per pool and period, an invoice per team in it."""

import json
from dataclasses import dataclass, field
from typing import Final, Literal

from walras_contracts.accounts import BillingPeriod, BillingTerms
from walras_contracts.identifiers import digest_of
from walras_invoicing.calendar import Period
from walras_invoicing.lifecycle import ENDED, Status
from walras_invoicing.lines import LineBook

NEVER: Final = -1
Shown = tuple[str, str, int, int]
"""What a revision said beside its lines: status, reason, payable, pending."""


def invoice_id(scope: Literal["team", "pool"], pool: str, team: str, period: Period) -> str:
    """Return the id of an invoice; ``team`` is empty for a pool's."""
    kind, zone, start_ms = period.kind.value, period.zone, period.start_ms
    return digest_of("invoice", scope, pool, team, kind, zone, str(start_ms))


@dataclass(slots=True)
class TeamInvoice:
    """An invoice of a team.

    ``changed``: its lines, or what it reports, differ from its last revision. ``shown``: what that
    one said beside them; None before the first. Payable and pending of a draft are as they were
    last worked out; once it is issued they stay.
    """

    invoice_id: str
    team: str
    book: "Book"
    status: Status = Status.DRAFT
    reason: str = ""
    revision: int = NEVER
    changed: bool = True
    shown: Shown | None = None
    payable_micro: int = 0
    pending_macc_ms: int = 0
    rejected_late_macc_ms: int = 0
    issued_ms: int = NEVER
    lines: LineBook = field(default_factory=LineBook)

    @property
    def is_draft(self) -> bool:
        """Whether it is neither issued nor voided."""
        return self.status not in ENDED

    def dump(self) -> bytes:
        """Return it, without its lines, as a record of the state topic.

        What is worked out anew for a draft is left out: it is no memory.
        """
        return _packed(
            [
                self.book.invoice_id,
                self.team,
                self.status.value,
                self.reason,
                self.revision,
                self.changed,
                self.shown,
                0 if self.is_draft else self.payable_micro,
                0 if self.is_draft else self.pending_macc_ms,
                self.rejected_late_macc_ms,
                self.issued_ms,
                self.lines.detail,
            ]
        )


@dataclass(slots=True)
class Book:
    """The invoices of a pool's teams in a period, and with them the pool's own.

    The pool's invoice has a status of its own only where finance holds it; otherwise it is issued
    when all its teams' are, and voided when all of them are.
    """

    invoice_id: str
    pool: str
    period: Period
    held: bool = False
    reason: str = ""
    revision: int = NEVER
    changed: bool = True
    shown: tuple[str, str] | None = None
    """Status and reason of the last revision."""
    teams: dict[str, TeamInvoice] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """Return where the pool's invoice stands."""
        states = {invoice.status for invoice in self.teams.values()}
        if states <= {*ENDED}:
            return Status.ISSUED if Status.ISSUED in states else Status.VOIDED
        if self.held:
            return Status.HELD
        return Status.WAITING if Status.WAITING in states else Status.DRAFT

    def ordered(self) -> list[TeamInvoice]:
        """Return the invoices by team."""
        return [self.teams[team] for team in sorted(self.teams)]

    def dump(self) -> bytes:
        """Return it, without its invoices, as a record of the state topic."""
        period = self.period
        return _packed(
            [
                self.pool,
                [period.kind.value, period.zone, period.start_ms, period.end_ms],
                period.terms.model_dump(mode="json"),
                self.held,
                self.reason,
                self.revision,
                self.changed,
                self.shown,
            ]
        )

    @staticmethod
    def parse(name: str, value: bytes) -> "Book":
        """Read :meth:`dump`."""
        pool, (kind, zone, start_ms, end_ms), terms, *rest = json.loads(value)
        agreed = BillingTerms.model_validate(terms)
        period = Period(BillingPeriod(kind), zone, start_ms, end_ms, agreed)
        held, reason, revision, changed, shown = rest
        known = None if shown is None else (shown[0], shown[1])
        return Book(name, pool, period, held, reason, revision, changed, known)


@dataclass(slots=True)
class Account:
    """Running totals of a team in a pool, each exact.

    ``issued`` sums what is issued and not voided, ``issued_credit`` its credits alone,
    ``payable_micro`` what was payable of it;
    ``usage`` and ``credit`` sum all charge lines, as the ledger must. ``differs`` says how the
    ledger differs from them; empty: it does not.
    """

    issued: int = 0
    issued_credit: int = 0
    payable_micro: int = 0
    usage: int = 0
    credit: int = 0
    differs: str = ""
    invoices: dict[str, TeamInvoice] = field(default_factory=dict)

    def ordered(self) -> list[TeamInvoice]:
        """Return its invoices by the start of their periods."""
        return sorted(self.invoices.values(), key=_by_start)

    def dump(self) -> bytes:
        """Return the totals as a record of the state topic."""
        issued = [self.issued, self.issued_credit, self.payable_micro]
        return _packed([*issued, self.usage, self.credit, self.differs])

    def load(self, value: bytes) -> None:
        """Take back the totals."""
        self.issued, self.issued_credit, self.payable_micro, *charged = json.loads(value)
        self.usage, self.credit, self.differs = charged

    def take(self, lines: LineBook, sign: int) -> None:
        """Count an invoice among the issued ones; with −1 no longer."""
        self.issued += sign * lines.numerator
        self.issued_credit += sign * lines.credit_numerator


def _packed(values: list[object]) -> bytes:
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()


def _by_start(invoice: TeamInvoice) -> tuple[int, str]:
    return invoice.book.period.start_ms, invoice.invoice_id
