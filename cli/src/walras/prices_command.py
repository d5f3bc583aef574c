"""``walras prices``: what was in force in a market, and when it changed."""

import argparse
import json
from typing import Any, Final

from walras.billing_log import (
    BillingLogError,
    Source,
    add_source_arguments,
    add_window_arguments,
    source_of,
    window_of,
)
from walras.billing_log.amounts import UNKNOWN, credits_text
from walras.billing_log.arguments import FILE_FORM
from walras.billing_log.window import Window, moment
from walras.instance_arguments import OK, refuse
from walras.prices.history import MarketPrices, Origin, PriceRow
from walras_contracts.market import PriceGapPublished, PricePublished

DESCRIPTION: Final = """\
The price in force at the start of a window, and each change inside it: of a pool, or the reference
price. A price that is in force since before the window is marked as carried in. Where nothing is
known, as before the first price, it is "unknown" (null), which is not 0."""

EPILOG: Final = f"""\
Prices are credits per accelerator-hour; in JSON micro-credits, one object a line:
{{"market", "pool" (null: the reference price), "start_ms", "end_ms" (null: until the next is told),
 "since_ms" (null: nothing was told yet), "price_micro" (null: unknown), "origin", "carried_in"}}
origin  price            of a cleared cycle
        gap_unbilled     the market had no prices: use costs nothing
        gap_carry_last   the market had no prices: the price before goes on
        gap_ended        the price before goes on until a new one is told
        none             nothing was told yet

{FILE_FORM}

exit codes: 0 told; 2 bad input: no such market or pool, nothing to read from.

example:  walras prices a100-80gb --pool research --from 2021-03-24T05:00Z --to 2021-03-24T06:00Z"""

_WORDS: Final = {
    Origin.PRICE: "",
    Origin.UNBILLED: "no prices: nothing is billed",
    Origin.CARRIED: "no prices: the one before goes on",
    Origin.RESUMED: "the one before goes on until a new one is told",
    Origin.NONE: "nothing was told yet",
}


def add_prices_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the ``prices`` command."""
    parser = subparsers.add_parser(
        "prices",
        help="what was in force in a market, and when it changed",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("market", metavar="MARKET", help="id of the market")
    parser.add_argument("--pool", metavar="ID", help="inside this pool (default: reference price)")
    add_window_arguments(parser)
    add_source_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line on stdout")
    parser.set_defaults(run=run_prices)


def run_prices(arguments: argparse.Namespace) -> int:
    """Run the command; the exit codes are in its help."""
    try:
        window = window_of(arguments)
        prices = read_prices(source_of(arguments), arguments.market, arguments.pool)
    except BillingLogError as error:
        return refuse(f"walras prices: {error}")
    rows = prices.rows(arguments.pool, window)
    if arguments.json:
        for row in rows:
            print(json.dumps(document(arguments.market, arguments.pool, row)))
    else:
        print("\n".join(lines(arguments.market, arguments.pool, window, rows)))
    return OK


def read_prices(source: Source, market: str, pool: str | None) -> MarketPrices:
    """Return the prices of a market.

    Raises
    ------
    BillingLogError
        The source cannot be read, or has nothing of this market or pool.
    """
    prices = MarketPrices()
    markets: set[str] = set()
    for event in source.read(PricePublished, PriceGapPublished, partition_key=market):
        assert isinstance(event, PricePublished | PriceGapPublished)
        markets.add(event.market)
        if event.market == market:
            prices.take(event)
    if not prices.times_ms:
        raise BillingLogError(f"no price of market {market} is there{_others(markets)}")
    if pool is not None and pool not in prices.pools:
        raise BillingLogError(f"no price of pool {pool} in {market}{_others(prices.pools)}")
    return prices


def _others(names: set[str]) -> str:
    return f": there are {', '.join(sorted(names))}" if names else ""


def document(market: str, pool: str | None, row: PriceRow) -> dict[str, Any]:
    """Return a row for ``--json``."""
    return {
        "market": market,
        "pool": pool,
        "start_ms": row.start_ms,
        "end_ms": row.end_ms,
        "since_ms": row.since_ms,
        "price_micro": row.price_micro,
        "origin": row.origin.value,
        "carried_in": row.carried_in,
    }


def lines(market: str, pool: str | None, window: Window, rows: list[PriceRow]) -> list[str]:
    """Return the rows for people."""
    whose = "reference price" if pool is None else f"pool {pool}"
    found = [f"{market}, {whose}, {window.words()}; credits per accelerator-hour"]
    if not rows:
        found.append("  nothing was told in this time")
    prices = [credits_text(row.price_micro) for row in rows]
    width = max((len(price) for price in [*prices, UNKNOWN]), default=0)
    for row, price in zip(rows, prices, strict=True):
        notes = [_WORDS[row.origin]] if _WORDS[row.origin] else []
        if row.carried_in and row.since_ms is not None:
            notes.insert(0, f"carried in, since {moment(row.since_ms)}")
        found.append(f"  {moment(row.start_ms)}  {price:>{width}}  {', '.join(notes)}".rstrip())
    return found
