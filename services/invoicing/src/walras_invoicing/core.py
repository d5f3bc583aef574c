"""What a step of invoicing does, in this order: charges, the ledger, finance, due dates, revisions.

A record counts in the step that it lies in: what a step brings still changes the drafts that fall
due in it, and they are issued at its end.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from walras_contracts.charges import UsageQuarantined
from walras_contracts.event import Event
from walras_contracts.ledger import EntryKind, LedgerEntryPosted
from walras_invoicing.charging import Charging
from walras_invoicing.invoice import Book
from walras_invoicing.lifecycle import ENDED
from walras_invoicing.publishing import publish_pool, publish_team
from walras_invoicing.requests import Desk
from walras_invoicing.rounding import UNITS_PER_MICRO
from walras_invoicing.state import InvoicingState

HOUR_MS: Final = 3_600_000
REJECTED_LATE: Final = "rejected_late"
"""Code of billing for usage beyond its look-back."""


@dataclass(slots=True)
class Work:
    """One step under way: what it changes, and what it has decided so far."""

    state: InvoicingState
    now_ms: int
    charging: Charging
    desk: Desk
    outputs: list[Event] = field(default_factory=list)

    @property
    def is_hourly(self) -> bool:
        """Whether the step is the first of an hour of market time."""
        return self.now_ms // HOUR_MS > self.state.clock_ms // HOUR_MS


def begin(state: InvoicingState, now_ms: int) -> Work:
    """Return the work of a step."""
    charging = Charging(state, now_ms)
    return Work(state, now_ms, charging, Desk(state, charging, now_ms))


def take_quarantined(work: Work, event: UsageQuarantined) -> None:
    """Report use that came too late; what else is not charged is the audit's."""
    if event.code != REJECTED_LATE or event.macc_ms is None:
        return
    if event.team is not None and event.pool is not None:
        work.charging.reject_late((event.pool, event.team), int(event.macc_ms))


def take_entry(work: Work, entry: LedgerEntryPosted) -> None:
    """Compare the ledger with the charges, which lie before it in the log.

    While they differ nothing of the team is issued: one of the two is wrong. An entry that agrees
    again ends it.
    """
    if entry.kind not in {EntryKind.USAGE, EntryKind.CREDIT}:
        return
    owner = entry.pool, entry.team
    account = work.state.account(owner)
    total = account.usage if entry.kind is EntryKind.USAGE else account.credit
    posted = Fraction(entry.exact_total)
    differs = ""
    if posted != Fraction(total, UNITS_PER_MICRO):
        missing = total - posted * UNITS_PER_MICRO
        differs = f"{entry.kind.value}: the charges exceed the ledger by {missing} units"
    if differs != account.differs:
        account.differs = differs
        work.desk.urgent[owner] = None


def publish(work: Work) -> None:
    """Write revisions: at once where something new is said, the rest once an hour of market time.

    A step that writes one of a team's invoices writes all that changed, so that they always add up
    to what was charged by then.
    """
    state = work.state
    for invoice in state.touched_invoices():
        if invoice.lines.bound():
            invoice.changed = True
        if invoice.shown is None:
            work.desk.urgent[invoice.book.pool, invoice.team] = None
    for owner in sorted(state.accounts if work.is_hourly else work.desk.urgent):
        work.outputs += publish_team(state, owner, work.now_ms)
    books = [*state.books.values()] if work.is_hourly else state.touched_books()
    for book in sorted(books, key=_by_start):
        is_urgent = book.invoice_id in work.desk.urgent_books or _is_urgent(book)
        if is_urgent or (work.is_hourly and book.changed):
            work.outputs.append(publish_pool(state, book, work.now_ms))


def forget_old(work: Work) -> None:
    """Forget periods whose invoices have all been issued for longer than the look-back, hourly.

    Until then one may be voided; what comes for the time of a forgotten one is a correction all the
    same.
    """
    if not work.is_hourly:
        return
    for book in [*work.state.books.values()]:
        invoices = book.ordered()
        if any(invoice.is_draft for invoice in invoices):
            continue
        last_ms = max(invoice.issued_ms for invoice in invoices)
        if last_ms + book.period.terms.look_back_ms <= work.now_ms:
            work.state.forget(book)


def _is_urgent(book: Book) -> bool:
    """Whether a pool's invoice is new, stands otherwise than it says, or lost a voided one."""
    status = book.status
    if book.shown != (status.value, book.reason):
        return True
    return book.changed and status in ENDED


def _by_start(book: Book) -> tuple[int, str, str]:
    return book.period.start_ms, book.pool, book.invoice_id
