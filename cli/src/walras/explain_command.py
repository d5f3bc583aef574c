"""`walras explain`: why one job of a market is in or out, and what would change that."""

import argparse
from typing import Final

from walras.instance_arguments import (
    OK,
    BadInputError,
    add_instance_arguments,
    read_market,
    refuse,
)
from walras_clearing import ClearingInputError
from walras_clearing.explain import explain, team_of_job

DESCRIPTION: Final = """\
Clear one market and explain the outcome of one job: whether it is in, its share of its team's
quota, the price now and the highest one that its limit and the team's bid reach, what it is short
of, and the least limit and the least bid of its team at which it would run wholly, all else equal.

A team's quota goes to its jobs in queue order, as far as their limits are at or above the pool
price; a job runs where the quota covers all of it. The form of an instance: walras clear --help.

short of  price    its limit lies below the pool price
          budget   the team's bid ends before or within it in queue order
          supply   a tie at the pool price is not served wholly, nothing is for sale, or the
                   leftovers end (for jobs with limit 0 and teams without a bid)
          reserve  the reserve price holds the pool price up, or leftovers back"""

EPILOG: Final = """\
With --json the answer is one object: the job, its state (in, part, opportunistic, out), its share,
the prices, shortages with amounts, and each threshold with the prices that would then hold, or null
where no value in range does.

exit codes: 0 explained, whatever the outcome; 2 bad input: one line on standard error with the
JSON path and the reason, nothing on standard output.

example:  walras explain market.json --job train --team vision"""


def add_explain_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `explain` to the commands."""
    parser = subparsers.add_parser(
        "explain",
        help="why a job is in or out of a market, and what would change that",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_instance_arguments(parser)
    parser.add_argument("--job", required=True, metavar="ID", help="the job to explain")
    parser.add_argument(
        "--team", metavar="ID", help="its team; needed where several teams have a job of this id"
    )
    parser.set_defaults(run=run_explain)


def run_explain(args: argparse.Namespace) -> int:
    """Print the explanation; returns the exit code."""
    try:
        market = read_market(args)
        team = team_of_job(market, args.job) if args.team is None else args.team
        explanation = explain(market, team, args.job)
    except (BadInputError, ClearingInputError) as error:
        ambiguous = isinstance(error, ClearingInputError) and error.code == "ambiguous_job"
        return refuse(f"{error} (--team)" if ambiguous else error)
    print(explanation.to_json() if args.json else "\n".join(explanation.to_lines()))
    return OK
