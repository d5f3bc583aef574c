"""Invoices as they are published: what is payable, by which lines, in which revision."""

from dataclasses import dataclass
from typing import Final

from walras_contracts.invoices import InvoiceLine, InvoicePublished
from walras_invoicing.invoice import Account, Book, Shown, TeamInvoice
from walras_invoicing.lifecycle import Status
from walras_invoicing.lines import (
    POOL_ORDER,
    Line,
    LineBook,
    LineKey,
    amounts_micro,
    as_events,
    carries,
)
from walras_invoicing.rounding import rounded_micro
from walras_invoicing.state import InvoicingState, Owner

LEDGER_DIFFERS: Final = "ledger_differs: "


@dataclass(frozen=True, slots=True)
class Revision:
    """What a revision of an invoice says beside its period; ``team`` None: it is a pool's."""

    invoice_id: str
    number: int
    team: str | None
    status: Status
    reason: str
    lines: tuple[InvoiceLine, ...]
    rejected_late_macc_ms: int
    pending_macc_ms: int


def payable_micro(account: Account, invoice: TeamInvoice) -> int:
    """Return what is payable of an invoice if it is the next one to be issued.

    The total of all not-voided invoices, this one included, is rounded as the ledger rounds it:
    what was used once, what was credited once. What was payable of the earlier ones is taken off.
    So the sum of all payables is what the ledger posts, whatever came when. An invoice without a
    line that could carry it asks for nothing, and leaves the rest to the next.
    """
    if not carries(invoice.lines.lines):
        return 0
    credit = account.issued_credit + invoice.lines.credit_numerator
    used = account.issued + invoice.lines.numerator - credit
    return rounded_micro(used) + rounded_micro(credit) - account.payable_micro


def refresh(state: InvoicingState, owner: Owner) -> None:
    """Work out what is payable of the drafts of a team, in the order of their periods."""
    account = state.accounts[owner]
    ahead = Account(account.issued, account.issued_credit, account.payable_micro)
    for invoice in account.ordered():
        if invoice.is_draft:
            invoice.payable_micro = payable_micro(ahead, invoice)
            invoice.pending_macc_ms = state.pending_macc_ms(owner, invoice.book.period)
            ahead.take(invoice.lines, 1)
            ahead.payable_micro += invoice.payable_micro


def shown(account: Account, invoice: TeamInvoice) -> Shown:
    """Return what a revision of today says beside its lines."""
    status, reason = invoice.status.value, invoice.reason
    if invoice.is_draft and account.differs:
        status, reason = Status.HELD.value, LEDGER_DIFFERS + account.differs
    return status, reason[:500], invoice.payable_micro, invoice.pending_macc_ms


def publish_team(state: InvoicingState, owner: Owner, now_ms: int) -> list[InvoicePublished]:
    """Return new revisions of the invoices of a team that differ from their last ones."""
    account = state.accounts[owner]
    refresh(state, owner)
    published = []
    for invoice in account.ordered():
        today = shown(account, invoice)
        if not invoice.changed and today == invoice.shown:
            continue
        invoice.revision += 1
        invoice.changed, invoice.shown = False, today
        state.touch(invoice)
        invoice.book.changed = True
        state.touch_book(invoice.book)
        published.append(_of_team(invoice, today, now_ms))
    return published


def publish_pool(state: InvoicingState, book: Book, now_ms: int) -> InvoicePublished:
    """Return a new revision of a pool's invoice: the sum of its teams' that are not voided."""
    for invoice in book.ordered():
        refresh(state, (book.pool, invoice.team))
    status = book.status
    book.revision += 1
    book.changed, book.shown = False, (status.value, book.reason)
    state.touch_book(book)
    # A voided one says what it was, as a team's does.
    counted = [
        invoice
        for invoice in book.ordered()
        if status is Status.VOIDED or invoice.status is not Status.VOIDED
    ]
    lines = _lines_of_pool(counted)
    return _published(
        book,
        Revision(
            book.invoice_id,
            book.revision,
            None,
            status,
            book.reason,
            lines,
            sum(invoice.rejected_late_macc_ms for invoice in counted),
            sum(invoice.pending_macc_ms for invoice in counted),
        ),
        now_ms,
    )


def _of_team(invoice: TeamInvoice, today: Shown, now_ms: int) -> InvoicePublished:
    lines = invoice.lines.ordered()
    return _published(
        invoice.book,
        Revision(
            invoice.invoice_id,
            invoice.revision,
            invoice.team,
            Status(today[0]),
            today[1],
            as_events(lines, amounts_micro(lines, invoice.payable_micro)),
            invoice.rejected_late_macc_ms,
            invoice.pending_macc_ms,
        ),
        now_ms,
    )


def _lines_of_pool(invoices: list[TeamInvoice]) -> tuple[InvoiceLine, ...]:
    """Sum up the lines of teams, amounts as the teams pay them, without their jobs."""
    sums = LineBook(order=POOL_ORDER)
    amounts: dict[LineKey, int] = {}
    for invoice in invoices:
        lines = invoice.lines.ordered()
        for (key, line), amount in zip(
            lines, amounts_micro(lines, invoice.payable_micro), strict=True
        ):
            of_pool = key._replace(job=None)
            sums.add(of_pool, line)
            amounts[of_pool] = amounts.get(of_pool, 0) + amount
    sums.bound()
    whole: dict[LineKey, int] = {}
    for key, amount in amounts.items():
        coarse = sums.coarse(key)
        whole[coarse] = whole.get(coarse, 0) + amount
    ordered: list[tuple[LineKey, Line]] = sums.ordered()
    return as_events(ordered, [whole[key] for key, _ in ordered])


def _published(book: Book, revision: Revision, now_ms: int) -> InvoicePublished:
    period = book.period
    return InvoicePublished(
        invoice_id=revision.invoice_id,
        revision=revision.number,
        scope="pool" if revision.team is None else "team",
        pool=book.pool,
        team=revision.team,
        state=revision.status.state,
        held=revision.status is Status.HELD,
        reason=revision.reason,
        period=period.kind,
        zone=period.zone,
        start_ms=period.start_ms,
        end_ms=period.end_ms,
        due_ms=period.due_ms,
        at_ms=now_ms,
        lines=revision.lines,
        amount_numerator=str(sum(int(line.amount_numerator) for line in revision.lines)),
        payable_micro=sum(line.amount_micro for line in revision.lines),
        rejected_late_macc_ms=str(revision.rejected_late_macc_ms),
        pending_macc_ms=str(revision.pending_macc_ms),
    )
