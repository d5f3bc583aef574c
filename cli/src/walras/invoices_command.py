"""``walras invoices``: lists invoices as they stand, and writes them as files."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from walras.archive.progress import progress_bar
from walras.billing_log import BillingLogError, add_source_arguments, source_of
from walras.billing_log.amounts import credits_text
from walras.billing_log.arguments import FILE_FORM
from walras.instance_arguments import OK, refuse
from walras.invoices.latest import Invoices, Selection, read_invoices
from walras.invoices.local_time import local_text, period_name
from walras.invoices.writing import FORMATS, write_invoice
from walras_contracts.invoices import InvoicePublished, InvoiceState

ALL: Final = "all"
SHOWN_ID: Final = 12
"""So many digits of an id are listed; `walras invoice` needs no more."""
PLAIN_COLUMNS: Final = 160

DESCRIPTION: Final = """\
List the latest revision of invoices, and write them with --out: as JSON (the event itself), as an
HTML page that loads nothing, as PDF. Files are DIR/POOL/PERIOD_WHOSE_ID.FORMAT; what is there of
the same invoice is replaced."""

EPILOG: Final = f"""\
{FILE_FORM}

With --json: one object with "invoices" (payloads of walras.invoice.published.v1), "refused" (the
last refused request of each of them) and "files".

exit codes: 0 listed, be it none; 2 bad input: nothing to read from, a line that is no event, a
folder that cannot be written.

example:  walras invoices --pool research --state issued --out invoices --format pdf"""


def add_invoices_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``invoices`` command."""
    parser = subparsers.add_parser(
        "invoices",
        help="list invoices, and write them as JSON, HTML and PDF",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pool", metavar="ID", help="only of this pool")
    parser.add_argument("--team", metavar="ID", help="only of this team")
    parser.add_argument("--state", choices=[state.value for state in InvoiceState])
    parser.add_argument("--scope", choices=["pool", "team"], help="only pools', or teams'")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the files there")
    parser.add_argument(
        "--format",
        choices=[*FORMATS, ALL],
        default=ALL,
        help="what to write with --out (default: %(default)s)",
    )
    add_source_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run_invoices)


def run_invoices(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    try:
        invoices = read_invoices(source_of(arguments))
        found = invoices.selected(
            Selection(arguments.pool, arguments.team, arguments.state, arguments.scope)
        )
        files = _write(found, arguments) if arguments.out is not None else []
    except BillingLogError as error:
        return refuse(f"walras invoices: {error}")
    except OSError as error:
        return refuse(f"walras invoices: {error.filename or arguments.out}: {error.strerror}")
    if arguments.json:
        print(json.dumps(_document(invoices, found, files)))
    else:
        _show(invoices, found, files)
    return OK


def _write(found: Sequence[InvoicePublished], arguments: argparse.Namespace) -> list[Path]:
    formats = FORMATS if arguments.format == ALL else (arguments.format,)
    files: list[Path] = []
    with progress_bar("writing invoices") as told:
        for number, invoice in enumerate(found, start=1):
            files += write_invoice(invoice, arguments.out, formats)
            told(number, len(found))
    return files


def _document(
    invoices: Invoices, found: Sequence[InvoicePublished], files: Sequence[Path]
) -> dict[str, Any]:
    names = {invoice.invoice_id for invoice in found}
    return {
        "invoices": [invoice.model_dump(mode="json") for invoice in found],
        "refused": [
            refusal.model_dump(mode="json")
            for name, refusal in sorted(invoices.refused.items())
            if name in names
        ],
        "files": [str(path) for path in files],
    }


def _show(invoices: Invoices, found: Sequence[InvoicePublished], files: Sequence[Path]) -> None:
    if not found:
        print("no invoice of those asked for is there")
        return
    table = Table()
    for name in ("invoice", "pool", "team", "period", "zone", "state", "rev.", "issued from"):
        table.add_column(name)
    for name in ("lines", "to pay (credits)"):
        table.add_column(name, justify="right")
    for invoice in found:
        table.add_row(
            invoice.invoice_id[:SHOWN_ID],
            invoice.pool,
            invoice.team or "(all)",
            period_name(invoice.period, invoice.zone, invoice.start_ms),
            invoice.zone,
            f"{invoice.state.value}, held" if invoice.held else invoice.state.value,
            str(invoice.revision),
            local_text(invoice.zone, invoice.due_ms),
            str(len(invoice.lines)),
            credits_text(invoice.payable_micro),
        )
    Console(width=None if sys.stdout.isatty() else PLAIN_COLUMNS).print(table)
    for invoice in found:
        name = invoice.invoice_id[:SHOWN_ID]
        if invoice.reason:
            print(f"{name}: {'held' if invoice.held else 'voided'}: {invoice.reason}")
        refusal = invoices.refused.get(invoice.invoice_id)
        if refusal is not None:
            print(f"{name}: {refusal.action.value} was refused: {refusal.reason} [{refusal.code}]")
    for path in files:
        print(f"wrote {path}")
