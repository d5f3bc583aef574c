"""What invoicing remembers, and how it goes to the state topic and comes back."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from walras_contracts.accounts import AccountsChanged, PoolDocument
from walras_contracts.charges import ChargePending
from walras_invoicing.calendar import Period, PoolCalendar
from walras_invoicing.invoice import NEVER, Account, Book, Shown, TeamInvoice, invoice_id
from walras_invoicing.lifecycle import Status
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import Record, StateChange

CLOCK: Final = "clock"
ACCOUNT: Final = "account/"
BOOK: Final = "book/"
INVOICE: Final = "invoice/"
LINE: Final = "line/"

Owner = tuple[str, str]
"""Pool and team."""


@dataclass(slots=True)
class InvoicingState:
    """Calendars and pending use are folded from their topics; all else is invoicing's own."""

    calendars: dict[str, PoolCalendar] = field(default_factory=dict)
    pending: dict[Owner, dict[str, ChargePending]] = field(default_factory=dict)
    accounts: dict[Owner, Account] = field(default_factory=dict)
    books: dict[str, Book] = field(default_factory=dict)
    """By the id of the pool's invoice."""
    open_books: dict[str, Book] = field(default_factory=dict)
    """Those that may have drafts."""
    invoices: dict[str, TeamInvoice] = field(default_factory=dict)
    clock_ms: int = NEVER
    """Market time of the last step."""
    _pending_of: dict[str, Owner] = field(default_factory=dict)
    _touched_accounts: dict[Owner, None] = field(default_factory=dict)
    _touched_books: dict[str, None] = field(default_factory=dict)
    _touched_invoices: dict[str, None] = field(default_factory=dict)
    _gone: dict[str, None] = field(default_factory=dict)
    """Keys of the state topic that are to be removed."""
    _loaded: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    """Records that wait for what they belong to, by kind."""

    def fold(self, record: Record) -> None:
        """Take a version of an account, or a part of use that waits for its price, or no longer."""
        event = record.event
        if isinstance(event, AccountsChanged):
            if isinstance(event.document, PoolDocument):
                self.calendar(event.document.pool).put(event)
        elif isinstance(event, ChargePending):
            owner = event.pool, event.team
            self._pending_of[record.key] = owner
            self.pending.setdefault(owner, {})[record.key] = event
        elif record.topic == ChargePending.TOPIC and record.key in self._pending_of:
            owner = self._pending_of.pop(record.key)
            del self.pending[owner][record.key]
            if not self.pending[owner]:
                del self.pending[owner]

    def calendar(self, pool: str) -> PoolCalendar:
        """Return the periods of a pool."""
        held = self.calendars.get(pool)
        if held is None:
            held = self.calendars[pool] = PoolCalendar()
        return held

    def pending_macc_ms(self, owner: Owner, period: Period) -> int:
        """Return how much use of a period waits for its price, as far as it lies in the period."""
        macc_ms = 0
        for part in self.pending.get(owner, {}).values():
            first_ms = max(part.start_ms, period.start_ms)
            behind_ms = min(part.end_ms, period.end_ms)
            macc_ms += part.quantity_macc * max(0, behind_ms - first_ms)
        return macc_ms

    def account(self, owner: Owner) -> Account:
        """Return the running totals of a team in a pool, marked as changed."""
        self._touched_accounts[owner] = None
        held = self.accounts.get(owner)
        if held is None:
            held = self.accounts[owner] = Account()
        return held

    def agreed(self, pool: str, period: Period) -> Period:
        """Return a period as it was agreed when it got its first invoice, where it has one.

        The calendar of a pool may say otherwise since: its first document came later.
        """
        book = self.books.get(invoice_id("pool", pool, "", period))
        return period if book is None else book.period

    def invoice(self, owner: Owner, period: Period) -> TeamInvoice:
        """Return the invoice of a team over a period; a new draft where there is none."""
        pool, team = owner
        name = invoice_id("team", pool, team, period)
        held = self.invoices.get(name)
        if held is not None:
            return held
        book_name = invoice_id("pool", pool, "", period)
        book = self.books.get(book_name)
        if book is None:
            book = self.books[book_name] = Book(book_name, pool, period)
        self.touch_book(book)
        self.account(owner)
        invoice = self._put(TeamInvoice(name, team, book))
        self.touch(invoice)
        return invoice

    def touch(self, invoice: TeamInvoice) -> None:
        """Mark an invoice or its lines as changed, to be written to the state topic."""
        self._touched_invoices[invoice.invoice_id] = None

    def touch_book(self, book: Book) -> None:
        """Mark a book as changed."""
        self._touched_books[book.invoice_id] = None

    def touched_invoices(self) -> list[TeamInvoice]:
        """Return the invoices that changed in this step."""
        return [self.invoices[name] for name in self._touched_invoices]

    def touched_books(self) -> list[Book]:
        """Return the books that changed in this step."""
        return [self.books[name] for name in self._touched_books]

    def forget(self, book: Book) -> None:
        """Forget a period of a pool with all its invoices."""
        del self.books[book.invoice_id]
        self._touched_books.pop(book.invoice_id, None)
        self._gone[BOOK + book.invoice_id] = None
        for invoice in book.ordered():
            name = invoice.invoice_id
            self._gone[INVOICE + name] = None
            for key in (*invoice.lines.lines, *invoice.lines.touched):
                self._gone[f"{LINE}{name}/{key.text()}"] = None
            del self.invoices[name]
            del self.accounts[book.pool, invoice.team].invoices[name]
            self._touched_invoices.pop(name, None)

    def changes(self) -> Iterator[StateChange]:
        """Yield what changed in this step, by key, and forget that it did."""
        changed: dict[str, bytes | None] = dict.fromkeys(self._gone)
        changed[CLOCK] = json.dumps([self.clock_ms]).encode()
        for pool, team in self._touched_accounts:
            changed[f"{ACCOUNT}{pool}/{team}"] = self.accounts[pool, team].dump()
        for name in self._touched_books:
            changed[BOOK + name] = self.books[name].dump()
        for name in self._touched_invoices:
            invoice = self.invoices[name]
            changed[INVOICE + name] = invoice.dump()
            for key, value in invoice.lines.take_changes():
                changed[f"{LINE}{name}/{key}"] = value
        for touched in (
            self._gone,
            self._touched_accounts,
            self._touched_books,
            self._touched_invoices,
        ):
            touched.clear()
        for key in sorted(changed):
            yield StateChange(key, changed[key])

    def load(self, key: str, value: bytes) -> None:
        """Take back one record of the state topic.

        Raises
        ------
        InvariantBrokenError
            The record is none of invoicing's.
        """
        kind, _, name = key.partition("/")
        if key == CLOCK:
            (self.clock_ms,) = json.loads(value)
        elif kind == "account":
            pool, _, team = name.partition("/")
            self.accounts.setdefault((pool, team), Account()).load(value)
        elif kind == "book":
            self.books[name] = Book.parse(name, value)
        elif kind in {"invoice", "line"}:
            # Records come by key in no order that helps: an invoice needs its book.
            self._loaded.setdefault(kind, []).append((name, value))
        else:
            raise InvariantBrokenError(f"state of invoicing has an unknown key {key!r}")

    def resume(self) -> None:
        """Put together what was loaded, once all of it is there."""
        for name, value in self._loaded.pop("invoice", []):
            self._put(self._parsed(name, value))
        for name, value in self._loaded.pop("line", []):
            owner, _, key = name.partition("/")
            self.invoices[owner].lines.load(key, value)

    def _put(self, invoice: TeamInvoice) -> TeamInvoice:
        book, name = invoice.book, invoice.invoice_id
        self.invoices[name] = book.teams[invoice.team] = invoice
        if invoice.is_draft:
            self.open_books[book.invoice_id] = book
        self.accounts.setdefault((book.pool, invoice.team), Account()).invoices[name] = invoice
        return invoice

    def _parsed(self, name: str, value: bytes) -> TeamInvoice:
        book, team, status, reason, revision, changed, shown, *rest = json.loads(value)
        payable, pending, rejected, issued_ms, detail = rest
        known: Shown | None = None if shown is None else (shown[0], shown[1], shown[2], shown[3])
        invoice = TeamInvoice(name, team, self.books[book], Status(status), reason, revision)
        invoice.changed, invoice.shown = changed, known
        invoice.payable_micro, invoice.pending_macc_ms = payable, pending
        invoice.rejected_late_macc_ms, invoice.issued_ms = rejected, issued_ms
        invoice.lines.detail = detail
        return invoice
