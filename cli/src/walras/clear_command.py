"""`walras clear` and `walras verify`: one market from JSON to JSON, without any service."""

import argparse
import json
import sys
from typing import Final

from walras.instance_arguments import (
    OK,
    BadInputError,
    add_margin_argument,
    read_bytes,
    refuse,
    say,
)
from walras_clearing import (
    COARSE_BELOW_MICRO,
    ClearingInputError,
    ClearingResult,
    clear,
    coarse_pools,
    verify,
)
from walras_clearing.instance import parse_instance, parse_result, result_to_json
from walras_clearing.model import Margin

VIOLATED: Final = 1

CLEAR_DESCRIPTION: Final = """\
Clear one market: an instance in JSON on standard input, the result in JSON on standard output.

instance  {"shared_supply_macc", "reserve_price_micro"?, "idle_own_supply": "keep" | "lend"?,
           "pools": [{"pool", "own_supply_macc", "weight"?}],
           "teams": [{"team", "pool", "bid_micro_per_hour",
                      "jobs": [{"job", "size_macc", "limit_micro": integer | null}]}]}
result    {"reference_price_micro", "pools": {id: {"price_micro", "purchased_macc",
           "allocated_macc"}}, "teams": {id: {"allocated_macc", "opportunistic_macc"}},
           "certificate"}

Quantities are in thousandths of an accelerator (macc), prices in micro-credits per
accelerator-hour, bids in micro-credits per hour; all are integers."""

CLEAR_EPILOG: Final = """\
exit codes: 0 cleared; 2 bad input: one line on standard error with the JSON path and the reason,
nothing on standard output. With --lines the results of the lines before the bad one have been
written; nothing is written for the bad line or after it.
Without --lines, a pool price above 0 but below 1000 ticks is warned of on standard error."""

VERIFY_DESCRIPTION: Final = """\
Check a result against its instance, without clearing again: prices, certificate, allocations and
leftovers. "-" reads a file from standard input."""

VERIFY_EPILOG: Final = """\
exit codes: 0 the result is right ("ok"); 1 it is not, with one violation a line; 2 bad input."""


def add_clear_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `clear` to the commands."""
    parser = subparsers.add_parser(
        "clear",
        help="clear one market: instance on stdin, result on stdout",
        description=CLEAR_DESCRIPTION,
        epilog=CLEAR_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--lines",
        action="store_true",
        help="one instance per line in, one result per line out; stops at the first bad line",
    )
    add_margin_argument(parser)
    parser.set_defaults(run=run_clear)


def add_verify_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `verify` to the commands."""
    parser = subparsers.add_parser(
        "verify",
        help="check a result against its instance",
        description=VERIFY_DESCRIPTION,
        epilog=VERIFY_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("instance", help="file with the instance")
    parser.add_argument("result", help="file with the result")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    add_margin_argument(parser)
    parser.set_defaults(run=run_verify)


def run_clear(args: argparse.Namespace) -> int:
    """Clear what stands on standard input; returns the exit code."""
    if args.lines:
        return _clear_lines(args.margin)
    try:
        result = clear(parse_instance(sys.stdin.buffer.read(), margin=args.margin))
    except ClearingInputError as error:
        return refuse(error)
    _warn(result)
    print(result_to_json(result))
    return OK


def run_verify(args: argparse.Namespace) -> int:
    """Check a result file against an instance file; returns the exit code."""
    if args.instance == "-" and args.result == "-":
        return refuse("only one of the two files can be standard input")
    role = "instance"
    try:
        instance, outcome = read_bytes(role, args.instance), read_bytes("result", args.result)
        market = parse_instance(instance, margin=args.margin)
        role = "result"
        result = parse_result(outcome)
    except BadInputError as error:
        return refuse(error)
    except ClearingInputError as error:
        return refuse(f"{role} {error}")
    violations = verify(market, result)
    if args.json:
        found = [{"code": v.code, "where": v.where, "message": v.message} for v in violations]
        print(json.dumps({"ok": not found, "violations": found}))
    elif not violations:
        print("ok")
    else:
        for violation in violations:
            print(f"{violation.where}: {violation.message} [{violation.code}]")
    return VIOLATED if violations else OK


def _clear_lines(margin: Margin) -> int:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if not line.strip():
            continue
        try:
            text = result_to_json(clear(parse_instance(line, margin=margin)))
        except ClearingInputError as error:
            return refuse(f"line {number}: {error}")
        # A reader that waits for its answer before the next line must get it.
        print(text, flush=True)
    return OK


def _warn(result: ClearingResult) -> None:
    """Say where prices have so few ticks that supply stays unsold."""
    coarse = coarse_pools(result)
    if coarse:
        say(
            f"warning: {len(coarse)} of {len(result.pools)} pool prices, the first in "
            f"{coarse[0]!r}, are below {COARSE_BELOW_MICRO} ticks: supply may stay unsold; count "
            "money in smaller units [coarse_price]"
        )
