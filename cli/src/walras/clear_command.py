"""`walras clear` and `walras verify`: one market from JSON to JSON, without any service."""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

from walras_clearing import ClearingInputError, clear, verify
from walras_clearing.instance import parse_instance, parse_result, result_to_json
from walras_clearing.model import Margin, Market

OK: Final = 0
VIOLATED: Final = 1
BAD_INPUT: Final = 2

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
written; nothing is written for the bad line or after it."""

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
    _add_margin(parser)
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
    _add_margin(parser)
    parser.set_defaults(run=run_verify)


def run_clear(args: argparse.Namespace) -> int:
    """Clear what stands on standard input; returns the exit code."""
    if args.lines:
        return _clear_lines(args.margin)
    try:
        market = parse_instance(sys.stdin.buffer.read())
        text = result_to_json(clear(_with_margin(market, args.margin)))
    except ClearingInputError as error:
        return _refuse(str(error))
    print(text)
    return OK


def run_verify(args: argparse.Namespace) -> int:
    """Check a result file against an instance file; returns the exit code."""
    if args.instance == "-" and args.result == "-":
        return _refuse("only one of the two files can be standard input")
    data: dict[str, bytes] = {}
    for role, name in (("instance", args.instance), ("result", args.result)):
        try:
            data[role] = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        except OSError as error:
            return _refuse(f"{role} {name}: {error.strerror}")
    role = "instance"
    try:
        market = _with_margin(parse_instance(data["instance"]), args.margin)
        role = "result"
        result = parse_result(data["result"])
    except ClearingInputError as error:
        return _refuse(f"{role} {error}")
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
            market = parse_instance(line)
            text = result_to_json(clear(_with_margin(market, margin)))
        except ClearingInputError as error:
            return _refuse(f"line {number}: {error}")
        # A reader that waits for its answer before the next line must get it.
        print(text, flush=True)
    return OK


def _add_margin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--margin",
        choices=get_args(Margin),
        default="pro_rata",
        help="how ties at the pool price are served (default: %(default)s)",
    )


def _with_margin(market: Market, margin: Margin) -> Market:
    return replace(market, margin=margin)


def _refuse(reason: str) -> int:
    # Foreign text may hold what the terminal cannot print; the message stays one ASCII-safe line.
    line = " ".join(reason.splitlines())
    print(line.encode("ascii", "backslashreplace").decode("ascii"), file=sys.stderr)
    return BAD_INPUT
