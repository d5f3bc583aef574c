"""`walras simulate`: what a market would do if; nothing is written."""

import argparse
from collections.abc import Iterator
from typing import Final

from walras.instance_arguments import (
    OK,
    BadInputError,
    add_instance_arguments,
    read_bytes,
    read_market,
    refuse,
)
from walras_clearing import ClearingInputError, Market
from walras_clearing.explain import team_of_job
from walras_clearing.explanation import amount, plain
from walras_clearing.model import PoolResult, TeamResult
from walras_clearing.validate import quoted
from walras_clearing.whatif import (
    AddJob,
    Change,
    RemoveJob,
    SetBid,
    Simulation,
    parse_job,
    simulate,
)

MOST_ROWS: Final = 20
"""So many teams, and pools, are shown to people: those that change most."""

BID_DIGITS: Final = 40

DESCRIPTION: Final = """\
Clear one market without and with changes, and say what differs: reference price, pool prices, the
quotas of the teams; each job that was added is explained (walras explain --help says the words).
Nothing is written anywhere. The form of an instance: walras clear --help.

job to add  {"team", "job", "size_macc", "limit_micro": integer | null, "queue_position"?}
            queue_position counts from 0; without it the job goes to the end of its team's queue

Jobs are removed first, then bids are set, then jobs are added in the order given; so a job can be
replaced by another of the same id."""

EPILOG: Final = """\
With --json the answer is one object: "reference_price_micro", the "pools" and "teams" that differ,
each with "before" and "after", and the "added" jobs explained.

exit codes: 0 answered; 2 bad input: one line on standard error with the JSON path and the reason,
nothing on standard output.

example:  walras simulate market.json --add job.json --set-bid vision=9000000"""


def add_simulate_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `simulate` to the commands."""
    parser = subparsers.add_parser(
        "simulate",
        help="what a market would do with another job or bid; writes nothing",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_instance_arguments(parser)
    parser.add_argument(
        "--add", action="append", default=[], metavar="FILE", help="add the job in FILE; repeatable"
    )
    parser.add_argument(
        "--remove", action="append", default=[], metavar="ID", help="remove a job; repeatable"
    )
    parser.add_argument(
        "--team",
        metavar="ID",
        help="the team of the jobs to remove; needed where several teams have a job of this id",
    )
    parser.add_argument(
        "--set-bid",
        action="append",
        default=[],
        metavar="TEAM=BID",
        help="set a team's bid, in micro-credits per hour; repeatable",
    )
    parser.set_defaults(run=run_simulate)


def run_simulate(args: argparse.Namespace) -> int:
    """Print what differs; returns the exit code."""
    try:
        if [args.instance, *args.add].count("-") > 1:
            raise BadInputError("only one of the files can be standard input")
        market = read_market(args)
        simulation = simulate(market, list(_changes(args, market)))
    except BadInputError as error:
        return refuse(error)
    except ClearingInputError as error:
        return refuse(f"with the changes {error}")
    print(simulation.to_json() if args.json else "\n".join(_lines(simulation)))
    return OK


def _changes(args: argparse.Namespace, market: Market) -> Iterator[Change]:
    """Read the changes that the arguments ask for, in the order in which they are made."""
    if not (args.add or args.remove or args.set_bid):
        raise BadInputError("nothing to simulate: give --add, --remove or --set-bid")
    if args.team is not None and not args.remove:
        raise BadInputError("--team: names the team of jobs to remove, and there is no --remove")
    for job in args.remove:
        try:
            yield RemoveJob(team_of_job(market, job) if args.team is None else args.team, job)
        except ClearingInputError as error:
            hint = " (--team)" if error.code == "ambiguous_job" else ""
            raise BadInputError(f"--remove: {error}{hint}") from error
    for text in args.set_bid:
        team, separator, bid = text.rpartition("=")
        good = separator and bid.isascii() and bid.isdigit() and len(bid) <= BID_DIGITS
        if not good:
            raise BadInputError(f"--set-bid: must be TEAM=INTEGER, was {quoted(text)}")
        yield SetBid(team, int(bid))
    for name in args.add:
        yield _added(name)


def _added(name: str) -> AddJob:
    data = read_bytes("job", name)
    try:
        return parse_job(data)
    except ClearingInputError as error:
        raise BadInputError(f"job {name} {error}") from error


def _lines(simulation: Simulation) -> Iterator[str]:
    """Put the differences in words, the largest first."""
    before, after = simulation.before, simulation.after
    prices = _change(before.reference_price_micro, after.reference_price_micro)
    yield f"reference price: {prices} µcr per accelerator-hour"
    pools = simulation.changed_pools()
    shown = sorted(pools, key=lambda pool: -_price_move(*pools[pool]))[:MOST_ROWS]
    for pool in shown:
        yield f"pool {plain(pool)}: {_pool_words(*pools[pool])}"
    yield _rest("pool", len(pools) - len(shown), len(before.pools) - len(pools))
    teams = simulation.changed_teams()
    shown = sorted(teams, key=lambda team: -_quota_move(*teams[team]))[:MOST_ROWS]
    for team in shown:
        yield f"team {plain(team)}: {_team_words(*teams[team])}"
    yield _rest("team", len(teams) - len(shown), len(before.teams) - len(teams))
    for explanation in simulation.added:
        first, *others = explanation.to_lines()
        yield f"added {first}"
        yield from (f"  {line}" for line in others)


def _price_move(before: PoolResult, after: PoolResult) -> int:
    return abs((after.price_micro or 0) - (before.price_micro or 0))


def _quota_move(before: TeamResult, after: TeamResult) -> int:
    return abs(after.allocated_macc - before.allocated_macc)


def _pool_words(before: PoolResult, after: PoolResult) -> str:
    return (
        f"price {_change(before.price_micro, after.price_micro)} µcr, "
        f"purchased {_change(before.purchased_macc, after.purchased_macc)} macc, "
        f"allocated {_change(before.allocated_macc, after.allocated_macc)} macc"
    )


def _team_words(before: TeamResult, after: TeamResult) -> str:
    words = f"quota {_change(before.allocated_macc, after.allocated_macc)} macc"
    if before.opportunistic_macc == after.opportunistic_macc:
        return words
    return f"{words}, leftovers {_change(before.opportunistic_macc, after.opportunistic_macc)} macc"


def _change(before: int | None, after: int | None) -> str:
    if before == after:
        return f"{amount(after)} (unchanged)"
    if before is None or after is None:
        return f"{amount(before)} -> {amount(after)}"
    return f"{before:,} -> {after:,} ({after - before:+,})"


def _rest(kind: str, more: int, unchanged: int) -> str:
    hidden = f"{more:,} more {kind}s change (--json has all); " if more else ""
    return f"{hidden}{unchanged:,} {kind}{'' if unchanged == 1 else 's'} unchanged"
