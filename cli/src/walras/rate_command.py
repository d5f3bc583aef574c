"""`walras rate`: what use costs, from two files, by the code that the billing service runs."""

import argparse
import json
import sys
from typing import Final

from walras.instance_arguments import OK, BadInputError, read_bytes, refuse, say
from walras.rate.bill import Bill, Window
from walras.rate.reading import LineError, Prices, read_prices, read_usage

DESCRIPTION: Final = """\
Rate usage against prices, both as JSON lines, without any service.

prices  {"market", "pool", "effective_ms", "price_micro": integer | null}
        null: unknown from then on
usage   {"lease", "team", "pool", "market", "quantity_macc", "start_ms", "end_ms", "source", "seq",
         "class"?: "market" | "opportunistic" | "overhang", "billable"?: true,
         "tariff_ppm"?: 1000000, "limit_micro"?: null}
output  {"charge_id", "lease", "team", "pool", "market", "quantity_macc", "start_ms", "end_ms",
         "price_micro": integer | null, "state": "rated" | "price_pending", "amount_numerator"}
        one line for each time at one price; last
        {"totals": {team: {"amount_micro", "pending_macc_ms"}}, "quarantined": [{"line", "code"}]}

Prices are in micro-credits per accelerator-hour, quantities in thousandths of an accelerator
(macc). The price is the pool's, at most the limit; opportunistic and unbillable use is rated 0.
amount_numerator = price x tariff_ppm x macc x ms; divided by 3.6e15 it is micro-credits. Without
a known price the state is price_pending, price_micro null and the numerator 0: nothing is charged
yet. All prices count as known, whenever they were told. The order of the lines and exact
repetitions change nothing; usage that is wrong in itself, repeats a number with another body (the
first of the file counts) or overlaps a lower number of its source is quarantined."""

EPILOG: Final = """\
exit codes: 0 rated; 2 bad input: one line on standard error with file, line, JSON path and reason,
nothing on standard output."""


def add_rate_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `rate` to the commands."""
    parser = subparsers.add_parser(
        "rate",
        help="rate a usage file against a price file",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in ("usage", "prices"):
        parser.add_argument(
            f"--{name}", required=True, metavar="FILE", help='JSON lines; "-" reads stdin'
        )
    parser.add_argument(
        "--from",
        dest="from_ms",
        type=int,
        metavar="MS",
        help="bill from this time on; the prices in force then are printed first, as carried_in",
    )
    parser.add_argument(
        "--to", dest="to_ms", type=int, metavar="MS", help="bill what is before this time"
    )
    parser.add_argument(
        "--max-price-age",
        dest="max_age_ms",
        type=int,
        metavar="MS",
        help="a price that is older is unknown (default: a price counts until the next)",
    )
    parser.add_argument(
        "--json", action="store_true", help="JSON lines and no warnings on standard error"
    )
    parser.set_defaults(run=run_rate)


def run_rate(args: argparse.Namespace) -> int:
    """Rate one file against the other; returns the exit code."""
    window = Window(args.from_ms, args.to_ms)
    if None not in (args.from_ms, args.to_ms) and args.from_ms > args.to_ms:
        return refuse(f"--from {args.from_ms} is after --to {args.to_ms}")
    if args.max_age_ms is not None and args.max_age_ms < 1:
        return refuse(f"--max-price-age {args.max_age_ms} is not 1 or more")
    if args.usage == "-" and args.prices == "-":
        return refuse("only one of the two files can be standard input")
    bill = Bill(Prices(), window)
    try:
        bill.prices = read_prices(_shown(args.prices), read_bytes("prices", args.prices))
        usage = read_bytes("usage", args.usage)
        lines = read_usage(_shown(args.usage), usage, args.max_age_ms, bill.quarantine)
    except (BadInputError, LineError) as error:
        return refuse(error)
    for documents in (bill.carried_in(lines), bill.charges(lines)):
        for document in documents:
            _print(document)
    _print(bill.totals())
    if bill.missing and not args.json:
        say(f"warning: {bill.missing} sequence numbers of usage are missing [gap]")
    return OK


def _shown(name: str) -> str:
    return "standard input" if name == "-" else name


def _print(document: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
