"""Invoices as files: one a format, each written in one go."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from walras.invoices.html_page import html_page
from walras.invoices.local_time import period_file_name
from walras.invoices.sheet import sheet_of
from walras_contracts.invoices import InvoicePublished

FORMATS: Final = ("json", "html", "pdf")


def file_name(invoice: InvoicePublished) -> str:
    """Return the name of an invoice's files, without the ending; ids have no slash and no dot."""
    period = period_file_name(invoice.period, invoice.zone, invoice.start_ms)
    whose = "pool" if invoice.team is None else f"team-{invoice.team}"
    return f"{period}_{whose}_{invoice.invoice_id}"


def write_invoice(invoice: InvoicePublished, folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write an invoice below ``folder/POOL``; return the paths."""
    writers: dict[str, Callable[[InvoicePublished], bytes]] = {
        "json": as_json,
        "html": as_html,
        "pdf": as_pdf,
    }
    place = folder / invoice.pool
    place.mkdir(parents=True, exist_ok=True)
    found = []
    for name in formats:
        path = place / f"{file_name(invoice)}.{name}"
        partial = path.with_name(f"{path.name}.partial")
        partial.write_bytes(writers[name](invoice))
        found.append(partial.replace(path))
    return found


def as_json(invoice: InvoicePublished) -> bytes:
    """Return the event itself, indented."""
    return f"{invoice.model_dump_json(indent=1)}\n".encode()


def as_html(invoice: InvoicePublished) -> bytes:
    """Return the page as HTML."""
    return html_page(sheet_of(invoice)).encode()


def as_pdf(invoice: InvoicePublished) -> bytes:
    """Return the page as PDF."""
    # The library takes a good part of a second to import: only where a PDF is asked for.
    page: bytes = import_module("walras.invoices.pdf_page").pdf_page(sheet_of(invoice))
    return page
