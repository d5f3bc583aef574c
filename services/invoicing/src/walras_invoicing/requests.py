"""What finance asks for, and what becomes due: invoices moved by the table of the lifecycle."""

from walras_contracts.invoices import InvoiceAction, InvoiceRefused, InvoiceRequested
from walras_invoicing.charging import Charging
from walras_invoicing.invoice import Book, TeamInvoice
from walras_invoicing.lifecycle import (
    ENDED,
    HAPPENINGS,
    REASONS,
    TABLE,
    Happening,
    Refusal,
    Status,
)
from walras_invoicing.publishing import payable_micro
from walras_invoicing.state import InvoicingState, Owner

Outcome = Status | Refusal


class Desk:
    """Moves the invoices in one step.

    ``urgent`` names the teams, by pool, of which something is to be published at once, and
    ``urgent_books`` the pools' invoices.
    """

    def __init__(self, state: InvoicingState, charging: Charging, now_ms: int) -> None:
        self._state = state
        self._charging = charging
        self._now_ms = now_ms
        self.urgent: dict[Owner, None] = {}
        self.urgent_books: dict[str, None] = {}

    def take(self, request: InvoiceRequested) -> InvoiceRefused | None:
        """Do what is asked of an invoice of a team or a pool; return why not, if not.

        What is asked of a pool's invoice is done to those of its teams, where it fits; only
        holding one keeps the later ones of the period from being issued too.
        """
        invoice = self._state.invoices.get(request.invoice_id)
        book = self._state.books.get(request.invoice_id)
        if invoice is not None:
            outcome: Outcome = self._ask_team(invoice, request)
        elif book is not None:
            outcome = self._ask_pool(book, request)
        else:
            outcome = Refusal.UNKNOWN_INVOICE
        if isinstance(outcome, Status):
            return None
        return InvoiceRefused(
            invoice_id=request.invoice_id,
            action=request.action,
            code=outcome.value,
            reason=REASONS[outcome],
            at_ms=self._now_ms,
        )

    def issue_due(self) -> None:
        """Issue what is due and not kept back, in the order of periods, pools and teams."""
        open_books = self._state.open_books
        due = [book for book in open_books.values() if self._is_due(book)]
        for book in sorted(due, key=_by_due):
            for invoice in book.ordered():
                self._tell_due(invoice)
            if book.status in ENDED:
                del open_books[book.invoice_id]

    def _is_due(self, book: Book) -> bool:
        return book.period.due_ms <= self._now_ms and not book.held

    def _tell_due(self, invoice: TeamInvoice) -> None:
        book = invoice.book
        if not self._is_due(book) or self._state.accounts[_owner(invoice)].differs:
            return
        by_hand = book.period.terms.approval
        self._move(invoice, Happening.DUE_FOR_APPROVAL if by_hand else Happening.DUE, "")

    def _ask_team(self, invoice: TeamInvoice, request: InvoiceRequested) -> Outcome:
        action = request.action
        if action is InvoiceAction.APPROVE and invoice.is_draft:
            if invoice.book.held:
                return Refusal.HELD
            if self._state.accounts[_owner(invoice)].differs:
                return Refusal.LEDGER_DIFFERS
        outcome = self._move(invoice, HAPPENINGS[action], request.reason)
        if action is InvoiceAction.RELEASE:
            self._tell_due(invoice)
        return outcome

    def _ask_pool(self, book: Book, request: InvoiceRequested) -> Outcome:
        action = request.action
        before = book.status
        outcome = TABLE[before, HAPPENINGS[action]]
        if isinstance(outcome, Refusal) or outcome is before:
            return outcome
        self._state.touch_book(book)
        if action in {InvoiceAction.HOLD, InvoiceAction.RELEASE}:
            book.held = action is InvoiceAction.HOLD
            book.reason = request.reason if book.held else ""
        for invoice in book.ordered():
            if action is InvoiceAction.RELEASE:
                self._tell_due(invoice)
            elif action is not InvoiceAction.HOLD:
                # What it does not fit stands as it did.
                self._ask_team(invoice, request)
        return outcome

    def _move(self, invoice: TeamInvoice, happening: Happening, reason: str) -> Outcome:
        before = invoice.status
        outcome = TABLE[before, happening]
        if isinstance(outcome, Refusal) or outcome is before:
            return outcome
        invoice.status = outcome
        invoice.reason = reason if outcome in {Status.HELD, Status.VOIDED} else ""
        invoice.changed = True
        self._state.touch(invoice)
        self.urgent[_owner(invoice)] = None
        if outcome is Status.ISSUED:
            self._issue(invoice)
        elif outcome is Status.VOIDED:
            self._void(invoice, reason)
        return outcome

    def _issue(self, invoice: TeamInvoice) -> None:
        owner = _owner(invoice)
        account = self._state.account(owner)
        invoice.payable_micro = payable_micro(account, invoice)
        invoice.pending_macc_ms = self._state.pending_macc_ms(owner, invoice.book.period)
        invoice.issued_ms = self._now_ms
        account.take(invoice.lines, 1)
        account.payable_micro += invoice.payable_micro

    def _void(self, invoice: TeamInvoice, reason: str) -> None:
        owner = _owner(invoice)
        account = self._state.account(owner)
        account.take(invoice.lines, -1)
        account.payable_micro -= invoice.payable_micro
        taker = self._charging.move_voided(owner, invoice)
        self.urgent_books[taker.book.invoice_id] = None
        invoice.book.reason = reason
        invoice.book.changed = True
        self._state.touch_book(invoice.book)


def _owner(invoice: TeamInvoice) -> Owner:
    return invoice.book.pool, invoice.team


def _by_due(book: Book) -> tuple[int, int, str, str]:
    period = book.period
    return period.due_ms, period.start_ms, book.pool, book.invoice_id
