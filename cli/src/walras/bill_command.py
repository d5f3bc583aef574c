"""``walras bill``: what a team pays, job by job."""

import argparse
import json
import sys
from typing import Final

from rich.console import Console

from walras.bill.document import bill_document
from walras.bill.held_table import held_lines, held_table
from walras.bill.reading import read_bill
from walras.bill.tables import each_price_table, jobs_table, prices_table, summary_lines
from walras.billing_log import (
    BillingLogError,
    add_source_arguments,
    add_window_arguments,
    source_of,
    window_of,
)
from walras.billing_log.arguments import FILE_FORM
from walras.instance_arguments import OK, refuse

PLAIN_COLUMNS: Final = 200
"""Width of tables that no terminal shows."""

DESCRIPTION: Final = """\
What the use of a team in a window costs, whenever it was rated: charges, their corrections, credits
for failed drains and heartbeat gaps; per job and market the base price (the reference price) beside
the price paid inside the pool, the time at each price, the part on the pool's own and on shared
supply (in the proportion of the pool's quota in that cycle), opportunistic and unbilled time; and
how the time that was held was used: occupied, allocated, idle, or not measured."""

EPILOG: Final = f"""\
Reads charges, charges.pending, prices, cycles and usage.settled; a bill without the last three says
what it costs, and leaves base price, shares and the use of held time open. The latter is known for
whole five minutes that are settled.

{FILE_FORM}

With --json amounts are micro-credits, exact ones 3.6e15ths of one as text, use is in
milli-accelerator-milliseconds (macc_ms), and what is not known is null.

exit codes: 0 billed; 2 bad input: no charge of such a team, nothing to read from, a correction
whose charge is not there.

example:  walras bill vision --from 2021-03-24 --to 2021-03-25"""


def add_bill_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``bill`` command."""
    parser = subparsers.add_parser(
        "bill",
        help="what a team pays, job by job",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("team", metavar="TEAM", help="id of the team")
    add_window_arguments(parser)
    add_source_arguments(parser)
    parser.add_argument("--each-price", action="store_true", help="list the time at each price")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run_bill)


def run_bill(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    try:
        bill = read_bill(source_of(arguments), arguments.team, window_of(arguments))
    except BillingLogError as error:
        return refuse(f"walras bill: {error}")
    if arguments.json:
        print(json.dumps(bill_document(bill)))
        return OK
    print("\n".join([*summary_lines(bill), "", *held_lines(bill)]) + "\n")
    console = Console(width=None if sys.stdout.isatty() else PLAIN_COLUMNS)
    console.print(jobs_table(bill))
    if bill.total().time_held is not None:
        console.print(held_table(bill))
    console.print(prices_table(bill))
    if arguments.each_price:
        console.print(each_price_table(bill))
    return OK
