"""Invoices as they stand: the latest revision of each, and what was refused."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from walras.billing_log import BillingLogError, Source
from walras_contracts.invoices import InvoicePublished, InvoiceRefused

SHORTEST_ID = 8
"""So many digits of an id must be given."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which invoices are wanted; None: all."""

    pool: str | None = None
    team: str | None = None
    state: str | None = None
    scope: str | None = None

    def has(self, invoice: InvoicePublished) -> bool:
        """Whether an invoice is wanted."""
        wanted = (
            (self.pool, invoice.pool),
            (self.team, invoice.team),
            (self.state, invoice.state.value),
            (self.scope, invoice.scope),
        )
        return all(value is None or value == found for value, found in wanted)


@dataclass(slots=True)
class Invoices:
    """The latest revisions by id, and the last refusal of each id."""

    by_id: dict[str, InvoicePublished] = field(default_factory=dict)
    refused: dict[str, InvoiceRefused] = field(default_factory=dict)

    def take(self, event: InvoicePublished | InvoiceRefused) -> None:
        """Take the next event of the log."""
        if isinstance(event, InvoiceRefused):
            self.refused[event.invoice_id] = event
            return
        known = self.by_id.get(event.invoice_id)
        if known is None or event.revision >= known.revision:
            self.by_id[event.invoice_id] = event

    def selected(self, selection: Selection) -> list[InvoicePublished]:
        """Return the wanted ones by pool and start, a pool's own before those of its teams."""
        found = [invoice for invoice in self.by_id.values() if selection.has(invoice)]
        return sorted(
            found, key=lambda each: (each.pool, each.start_ms, each.team or "", each.invoice_id)
        )

    def named(self, beginning: str) -> InvoicePublished:
        """Return the invoice whose id begins so.

        Raises
        ------
        BillingLogError
            There is none, there are several, or the text is too short to mean one.
        """
        if len(beginning) < SHORTEST_ID:
            raise BillingLogError(
                f"give at least {SHORTEST_ID} digits of the id, not {beginning!r}"
            )
        found = sorted(name for name in self.by_id if name.startswith(beginning))
        if not found:
            raise BillingLogError(f"no invoice {beginning} is there (walras invoices lists them)")
        if len(found) > 1:
            raise BillingLogError(f"{beginning} may be {' or '.join(found)}")
        return self.by_id[found[0]]


def read_invoices(source: Source) -> Invoices:
    """Read all invoices of a source.

    Raises
    ------
    BillingLogError
        It cannot be read.
    """
    return fold_invoices(
        event
        for event in source.read(InvoicePublished, InvoiceRefused)
        if isinstance(event, InvoicePublished | InvoiceRefused)
    )


def fold_invoices(events: Iterable[InvoicePublished | InvoiceRefused]) -> Invoices:
    """Fold events in the order of the log."""
    invoices = Invoices()
    for event in events:
        invoices.take(event)
    return invoices
