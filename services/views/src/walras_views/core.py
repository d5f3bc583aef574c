"""Folding events into tables, and the board made from them.

Pure. A fold overwrites the entry of its key, so that records told again, or a restart from the
beginning of the log, give the same tables.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from walras_contracts.market import CycleSummarised, PoolPrice, PricePublished, QuotaGranted
from walras_contracts.money import BalancePublished
from walras_views.state import CycleKey, Document, Tables, Window


def window_of(market_time_ms: int, window_ms: int) -> Window:
    """Return the tumbling window, [start, end) in ms, that a market time falls into."""
    start = market_time_ms - market_time_ms % window_ms
    return (start, start + window_ms)


def keep_cycle(tables: Tables, event: CycleSummarised) -> None:
    """Put a cycle's summary into the history and into its window."""
    key = (event.market, event.cycle)
    document: Document = {
        "market": event.market,
        "cycle": event.cycle,
        "market_time_ms": event.market_time_ms,
        "state": event.state.value,
        "reference_price_micro": event.reference_price_micro,
        "pool_prices_micro": _pool_prices(event.pool_prices),
        "supply_macc": event.supply_macc,
        "demand_macc": event.demand_macc,
        "allocated_macc": event.allocated_macc,
        "opportunistic_macc": event.opportunistic_macc,
        "jobs_queued": event.jobs_queued,
        "jobs_running": event.jobs_running,
        "revenue_micro_per_hour": event.revenue_micro_per_hour,
        "occupancy_ppm": event.occupancy_ppm,
    }
    if not _in_history(tables, key):
        return
    tables.cycles[key] = document
    tables.windows[key, window_of(event.market_time_ms, tables.window_ms)] = document


def keep_price(tables: Tables, event: PricePublished) -> None:
    """Put a market's prices of one cycle into the history."""
    key = (event.market, event.cycle)
    if not _in_history(tables, key):
        return
    tables.prices[key] = {
        "market": event.market,
        "cycle": event.cycle,
        "market_time_ms": event.market_time_ms,
        "reference_price_micro": event.reference_price_micro,
        "pool_prices_micro": _pool_prices(event.pools),
    }


def keep_wallet(tables: Tables, event: BalancePublished) -> None:
    """Keep a team's latest settled balance; an older one that is told again is passed over."""
    held = tables.wallets.get(event.team)
    if held is not None and held["boundary_ms"] > event.boundary_ms:
        return
    tables.wallets[event.team] = {
        "team": event.team,
        "pool": event.pool,
        "boundary_ms": event.boundary_ms,
        "wallet_micro": event.wallet_micro,
        "earned_micro": event.earned_micro,
        "spent_micro": event.spent_micro,
        "expired_micro": event.expired_micro,
    }


def keep_quota(tables: Tables, event: QuotaGranted) -> None:
    """Keep a team's latest quota; an older one that is told again is passed over."""
    held = tables.quotas.get(event.team)
    if held is not None and held["cycle"] > event.cycle:
        return
    tables.quotas[event.team] = {
        "team": event.team,
        "pool": event.pool,
        "cycle": event.cycle,
        "allocated_macc": sum(market.allocated_macc for market in event.markets),
        "opportunistic_macc": sum(market.opportunistic_macc for market in event.markets),
    }


def board(tables: Tables, cycles: int) -> Document:
    """Return the board.

    Parameters
    ----------
    tables
        What was folded so far.
    cycles
        How many of the last cycles of each market to name.

    Returns
    -------
    dict
        ``markets`` (latest cycle and latest prices by market), ``teams`` (wallets by team),
        ``quotas`` (by team, over all markets), ``cycles`` (oldest first, then by market) and
        ``windows`` (aggregates by market and window).
        Everything is an integer, a string or null; money in µcr, quantities in macc, shares in ppm.
    """
    history = {market: _last(tables.cycles, market, cycles) for market in sorted(tables.last_cycle)}
    markets: dict[str, Document] = {}
    for market, found in history.items():
        prices = _last(tables.prices, market, 1)
        markets[market] = {
            "latest": found[-1] if found else None,
            "price": prices[-1] if prices else None,
        }
    return {
        "markets": markets,
        "teams": {team: tables.wallets[team] for team in sorted(tables.wallets)},
        "quotas": {team: tables.quotas[team] for team in sorted(tables.quotas)},
        "cycles": sorted(
            (document for found in history.values() for document in found),
            key=lambda document: (document["cycle"], document["market"]),
        ),
        "windows": windows(tables),
    }


def windows(tables: Tables) -> list[Document]:
    """Return one aggregate per market and window, in that order.

    Prices are the least and the greatest reference price; occupancy is the mean over the cycles
    of the window in ppm, rounded down; markets that did not clear do not count for prices.
    """
    grouped: dict[tuple[str, Window], list[Document]] = {}
    for (key, window), document in tables.windows.items():
        grouped.setdefault((key[0], window), []).append(document)
    return [
        _aggregate(market, window, grouped[market, window]) for market, window in sorted(grouped)
    ]


def _aggregate(market: str, window: Window, documents: Sequence[Document]) -> Document:
    prices = [
        document["reference_price_micro"]
        for document in documents
        if document["reference_price_micro"] is not None
    ]
    return {
        "market": market,
        "start_ms": window[0],
        "end_ms": window[1],
        "cycles": len(documents),
        "least_price_micro": min(prices, default=None),
        "greatest_price_micro": max(prices, default=None),
        "mean_occupancy_ppm": sum(d["occupancy_ppm"] for d in documents) // len(documents),
        "most_jobs_queued": max(d["jobs_queued"] for d in documents),
    }


def _pool_prices(pools: Iterable[PoolPrice]) -> dict[str, int | None]:
    return {pool.pool: pool.price_micro for pool in pools}


def _in_history(tables: Tables, key: CycleKey) -> bool:
    """Note a cycle; let go what the history no longer reaches; tell whether the key is in it."""
    market, cycle = key
    last = tables.last_cycle.get(market, -1)
    if cycle > last:
        tables.last_cycle[market] = cycle
        oldest, newest = max(0, last - tables.history_cycles + 1), cycle - tables.history_cycles
        for gone in range(oldest, min(newest, last) + 1):
            _forget(tables, (market, gone))
        return True
    return cycle > last - tables.history_cycles


def _forget(tables: Tables, key: CycleKey) -> None:
    document = tables.cycles.pop(key, None)
    tables.prices.pop(key, None)
    if document is not None:
        window = window_of(document["market_time_ms"], tables.window_ms)
        tables.windows.pop((key, window), None)


def _last(table: Any, market: str, count: int) -> list[Document]:
    found = sorted(cycle for name, cycle in table if name == market)[-count:]
    return [table[market, cycle] for cycle in found]
