"""What a page of an invoice says, whatever draws it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from walras.billing_log.amounts import (
    NUMERATOR_PER_MICRO,
    accelerator_hours_text,
    credits_text,
    decimal_text,
)
from walras.invoices.local_time import local_text, period_name
from walras_contracts.invoices import InvoiceLine, InvoiceLineKind, InvoicePublished, InvoiceState

HOURS_PLACES = 6
EXACT_PLACES = 12
HEADINGS = {
    InvoiceLineKind.USAGE: "Use in this period",
    InvoiceLineKind.CORRECTION: "Corrections of earlier periods",
    InvoiceLineKind.CREDIT: "Credits",
    InvoiceLineKind.UNBILLED: "Use that costs nothing",
}
COLUMNS = (
    *("Whose", "Market", "Class", "Period of use", "First use", "Last use", "Price"),
    *("Accelerator-hours", "Charges", "Amount"),
)
NUMBERS = frozenset({"Price", "Accelerator-hours", "Charges", "Amount"})
NONE = "-"
"""Of what a line leaves out, or does not have."""


@dataclass(frozen=True, slots=True)
class Section:
    """The lines of a kind, as texts by column, and their sum."""

    heading: str
    rows: tuple[tuple[str, ...], ...]
    sum_text: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """An invoice as texts."""

    title: str
    state: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    payable: str
    notes: tuple[str, ...]
    footer: str
    made_ms: int
    """Market time of the revision."""


def sheet_of(invoice: InvoicePublished) -> Sheet:
    """Return the texts of an invoice."""
    whose = f"team {invoice.team}" if invoice.team is not None else f"pool {invoice.pool}"
    name = period_name(invoice.period, invoice.zone, invoice.start_ms)
    return Sheet(
        title=f"Invoice: {whose}, {name}",
        state="HELD DRAFT" if invoice.held else invoice.state.value.upper(),
        facts=tuple(_facts(invoice)),
        sections=tuple(_sections(invoice)),
        payable=f"{credits_text(invoice.payable_micro)} credits",
        notes=tuple(_notes(invoice)),
        footer=f"{invoice.invoice_id} · revision {invoice.revision}",
        made_ms=invoice.at_ms,
    )


def _facts(invoice: InvoicePublished) -> Iterator[tuple[str, str]]:
    zone = invoice.zone
    yield "Invoice", invoice.invoice_id
    yield "Pool", invoice.pool
    if invoice.team is not None:
        yield "Team", invoice.team
    yield "From (included)", local_text(zone, invoice.start_ms)
    yield "To (not included)", local_text(zone, invoice.end_ms)
    yield "Time zone", zone
    yield "Issued from", local_text(zone, invoice.due_ms)
    yield "Revision", f"{invoice.revision} of {local_text(zone, invoice.at_ms)}"
    if invoice.reason:
        yield (
            ("Voided because" if invoice.state is InvoiceState.VOIDED else "Held because"),
            (invoice.reason),
        )


def _sections(invoice: InvoicePublished) -> Iterator[Section]:
    for kind in InvoiceLineKind:
        lines = [line for line in invoice.lines if line.kind is kind]
        if lines:
            rows = tuple(_row(invoice, line) for line in lines)
            total_micro = sum(line.amount_micro for line in lines)
            yield Section(HEADINGS[kind], rows, credits_text(total_micro))


def _row(invoice: InvoicePublished, line: InvoiceLine) -> tuple[str, ...]:
    start_ms = line.period_start_ms
    return (
        (line.job if invoice.team is not None else line.team) or NONE,
        line.market or NONE,
        line.work_class or NONE,
        NONE if start_ms is None else period_name(invoice.period, invoice.zone, start_ms),
        local_text(invoice.zone, line.first_ms),
        local_text(invoice.zone, line.last_ms),
        NONE if line.price_micro is None else credits_text(line.price_micro),
        accelerator_hours_text(int(line.macc_ms), HOURS_PLACES),
        f"{line.charges:,}",
        credits_text(line.amount_micro),
    )


def _notes(invoice: InvoicePublished) -> Iterator[str]:
    exact = decimal_text(
        int(invoice.amount_numerator), NUMERATOR_PER_MICRO * 10**6, EXACT_PLACES, commas=True
    )
    yield (
        f"The exact sum of the lines is {exact} credits (to {EXACT_PLACES} decimals). What is to "
        "pay is the exact total of all invoices so far, rounded half to even to a millionth of a "
        "credit, less what the earlier ones asked for."
    )
    if invoice.scope == "pool":
        yield "A pool's invoice sums up the invoices of its teams in this period."
    hours = accelerator_hours_text(int(invoice.pending_macc_ms), HOURS_PLACES)
    if int(invoice.pending_macc_ms):
        yield (
            f"The price of {hours} accelerator-hours of this period is not known yet; they will be "
            "a correction on a later invoice, or part of this one while it is a draft."
        )
    if int(invoice.rejected_late_macc_ms):
        hours = accelerator_hours_text(int(invoice.rejected_late_macc_ms), HOURS_PLACES)
        yield f"{hours} accelerator-hours were reported too late to be charged."
    yield (
        "Prices are credits per accelerator-hour. Times are those of the zone, with its offset "
        "from UTC."
    )


def columns_of(invoice_sheet: Sheet) -> Sequence[str]:
    """Return the names of the columns; the first says whose a line is."""
    is_team = any(name == "Team" for name, _ in invoice_sheet.facts)
    return ("Job" if is_team else "Team", *COLUMNS[1:])
