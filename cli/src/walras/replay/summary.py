"""What a policy study found, as one document: per team, per pool, per market.

Prices are in µcr per accelerator-hour, averaged over what was held; quantities in macc, averaged
over time; payments in µcr for quota held over the time of all cycles whose end is known. All are
rounded down, once, after summing. Ratios are in parts per million.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from walras.replay.queries import MARKET_PRICES, NUMERATOR_PER_MICRO, POOL_IMPACTS, TEAM_SUMS
from walras_contracts.quantities import PPM

RUNS: Final = ("base", "policy")
"""What was recorded, and the other policy."""
Row = dict[str, Any]


def study_document(tables: duckdb.DuckDBPyConnection) -> dict[str, list[Row]]:
    """Return all figures of a study: ``markets``, ``pools`` and ``teams``, by id."""
    teams = _rows(tables, TEAM_SUMS)
    of_market, of_pool = defaultdict(list), defaultdict(list)
    for row in teams:
        of_market[row["market"]].append(row)
        of_pool[row["market"], row["pool"]].append(row)
    totals = {
        market: {run: _Total.of(members, run) for run in RUNS}
        for market, members in of_market.items()
    }
    team_rows = [_team(row, totals[row["market"]]) for row in teams]
    shown = defaultdict(list)
    for row in team_rows:
        shown[row["market"]].append(row)
    impacts = {(row["market"], row["pool"]): row for row in _rows(tables, POOL_IMPACTS)}
    prices = _rows(tables, MARKET_PRICES)
    lasted = {row["market"]: row["duration_ms"] for row in prices}
    return {
        "markets": [_market(row, of_market[row["market"]], shown[row["market"]]) for row in prices],
        "pools": [
            _pool(key, of_pool.get(key, []), impacts.get(key), lasted.get(key[0], 0))
            for key in sorted({*of_pool, *impacts})
        ],
        "teams": team_rows,
    }


@dataclass(frozen=True, slots=True)
class _Total:
    """Sums over teams: price × macc × ms paid, macc × ms held, bid × ms."""

    paid: int
    held: int
    bid: int

    @staticmethod
    def of(rows: Iterable[Row], run: str) -> "_Total":
        paid = held = bid = 0
        for row in rows:
            paid += row[f"{run}_paid"]
            held += row[f"{run}_held"]
            bid += row[f"{run}_bid"]
        return _Total(paid, held, bid)

    def price(self) -> int | None:
        return _divided(self.paid, self.held)


def _team(row: Row, totals: dict[str, _Total]) -> Row:
    mine = {run: _Total.of([row], run) for run in RUNS}
    return {
        "market": row["market"],
        "pool": row["pool"],
        "team": row["team"],
        "cycles": row["cycles"],
        **_money(mine, [row], row["duration_ms"]),
        "f_ppm": {run: _price_ratio_ppm(mine[run], totals[run]) for run in RUNS},
        "share_ppm": {run: _share_ratio_ppm(mine[run], totals[run]) for run in RUNS},
    }


def _pool(
    key: tuple[str, str], members: Sequence[Row], impact: Row | None, duration_ms: int
) -> Row:
    mine = {run: _Total.of(members, run) for run in RUNS}
    found: Row = dict.fromkeys(RUNS)
    if impact is not None:
        found = {run: _divided(impact[f"{run}_sum"], impact[f"{run}_samples"]) for run in RUNS}
    return {
        "market": key[0],
        "pool": key[1],
        "teams": len(members),
        **_money(mine, members, duration_ms),
        "impact_samples": 0 if impact is None else impact["samples"],
        "impact_micro": found,
    }


def _market(prices: Row, members: Sequence[Row], teams: Sequence[Row]) -> Row:
    mine = {run: _Total.of(members, run) for run in RUNS}
    reference = {run: prices[f"{run}_price_micro"] for run in RUNS}
    ratios = {run: [t["f_ppm"][run] for t in teams if t["f_ppm"][run]] for run in RUNS}
    shares = {run: [t["share_ppm"][run] for t in teams] for run in RUNS}
    known = {run: [share for share in shares[run] if share is not None] for run in RUNS}
    least = {run: min(known[run], default=None) for run in RUNS}
    most = {run: max(known[run], default=None) for run in RUNS}
    return {
        "market": prices["market"],
        "cycles": prices["cycles"],
        "duration_ms": prices["duration_ms"],
        "reference_price_micro": _compared(reference),
        **_money(mine, members, prices["duration_ms"]),
        "f_max_ppm": {run: max(ratios[run], default=None) for run in RUNS},
        "fairness_ppm": {run: _divided(PPM * PPM, max(ratios[run], default=None)) for run in RUNS},
        "share_min_ppm": least,
        "share_max_ppm": most,
        "max_min_ppm": {run: _divided((most[run] or 0) * PPM, least[run]) for run in RUNS},
    }


def _money(mine: dict[str, _Total], rows: Sequence[Row], duration_ms: int) -> Row:
    """Price, quantities averaged over a time, and payment of the teams of some rows."""
    free = {run: sum(row[f"{run}_free"] for row in rows) for run in RUNS}
    return {
        "price_micro": _compared({run: mine[run].price() for run in RUNS}),
        "allocated_macc": _compared({run: _divided(mine[run].held, duration_ms) for run in RUNS}),
        "opportunistic_macc": _compared({run: _divided(free[run], duration_ms) for run in RUNS}),
        "payment_micro": _compared({run: mine[run].paid // NUMERATOR_PER_MICRO for run in RUNS}),
    }


def _price_ratio_ppm(mine: _Total, all_teams: _Total) -> int | None:
    """Return f: the average price of a team by that of its market (theory §1.2)."""
    return _divided(mine.paid * all_teams.held * PPM, mine.held * all_teams.paid)


def _share_ratio_ppm(mine: _Total, all_teams: _Total) -> int | None:
    """Return the team's share of what all hold by its share of what all bid."""
    return _divided(mine.held * all_teams.bid * PPM, all_teams.held * mine.bid)


def _compared(figures: Row) -> Row:
    base, policy = figures["base"], figures["policy"]
    known = base is not None and policy is not None
    return {**figures, "difference": policy - base if known else None}


def _divided(value: int | None, by: int | None) -> int | None:
    return None if value is None or not by else value // by


def _rows(tables: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    answer = tables.execute(query)
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, values, strict=True)) for values in answer.fetchall()]
