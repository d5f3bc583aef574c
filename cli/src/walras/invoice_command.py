"""``walras invoice``: finance holds, releases, approves or voids an invoice."""

import argparse
import json
import os
from typing import Final

from walras.billing_log import BillingLogError, Kafka
from walras.instance_arguments import OK, refuse
from walras.invoices.latest import read_invoices
from walras.invoices.requesting import write_request
from walras_contracts.invoices import InvoiceAction, InvoiceRequested

REASON_MAX: Final = 500

DESCRIPTION: Final = """\
Ask something of an invoice. The request goes into the log; the invoicing service decides at its
next step and answers with a new revision of the invoice, or a refusal (`walras invoices` shows
both). Asking twice is the same as once.

  hold     a draft is not issued, however long it is due
  release  it is no longer held
  approve  a due draft of a pool that wants approval is issued
  void     an issued invoice no longer counts; what it charged moves to the open one"""

EPILOG: Final = """\
exit codes: 0 asked; 2 bad input: no such invoice, no broker, a reason that is too long.

example:  walras invoice hold 3f9a2c41 --reason "asked the team about job eval-7" """


def add_invoice_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``invoice`` command."""
    parser = subparsers.add_parser(
        "invoice",
        help="hold, release, approve or void an invoice",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=[action.value for action in InvoiceAction])
    parser.add_argument("invoice", metavar="ID", help="its id, or a beginning that only it has")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; stands on the invoice")
    parser.add_argument(
        "--bootstrap",
        default=os.environ.get("WALRAS_KAFKA_BOOTSTRAP"),
        help="broker, host:port (default: WALRAS_KAFKA_BOOTSTRAP)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run_invoice)


def run_invoice(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    if arguments.bootstrap is None:
        return refuse("walras invoice: name a broker with --bootstrap")
    if len(arguments.reason) > REASON_MAX:
        return refuse(f"walras invoice: --reason is longer than {REASON_MAX} characters")
    try:
        invoice = read_invoices(Kafka(arguments.bootstrap)).named(arguments.invoice)
        request = InvoiceRequested(
            invoice_id=invoice.invoice_id,
            action=InvoiceAction(arguments.action),
            reason=arguments.reason,
        )
        write_request(arguments.bootstrap, request)
    except BillingLogError as error:
        return refuse(f"walras invoice: {error}")
    if arguments.json:
        print(json.dumps({"requested": request.model_dump(mode="json")}))
    else:
        whose = invoice.team or f"pool {invoice.pool}"
        print(
            f"asked to {arguments.action} invoice {invoice.invoice_id} of {whose}, which is "
            f"{invoice.state.value}; the answer comes with the next step (walras invoices)"
        )
    return OK
