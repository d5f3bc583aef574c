"""Another policy on recorded markets: what each team and pool would have paid and got.

The rows of every cycle go into tables of DuckDB, on disk, so that a replay of any length fits into
memory; `walras.replay.queries` sums them up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from walras.archive.columns import named_columns
from walras.replay.impact import prices_without
from walras.replay.policy import Policy
from walras.replay.queries import CREATE_TABLES
from walras.replay.rebuilding import RebuiltMarket
from walras.replay.replaying import cleared
from walras_clearing.arrays import ABSENT, ClearedArrays, MarketArrays
from walras_contracts.market import CycleRecorded

BATCH_ROWS = 100_000
"""Rows that are kept in memory before they go to the tables."""


@dataclass(frozen=True, slots=True, eq=False)
class _Open:
    """A cycle whose end is not known yet."""

    since_ms: int
    teams: dict[str, Any]
    markets: dict[str, Any]


class PolicyStudy:
    """Clears every replayed market under a policy too, and keeps both outcomes.

    Parameters
    ----------
    policy
        What is changed.
    directory
        For the tables; it must be there and not hold any.
    impact_every
        Every cycle with a number that this divides is cleared without each pool, to see the pool's
        impact on the price.
    """

    def __init__(self, policy: Policy, directory: Path, impact_every: int) -> None:
        self._policy = policy
        self._impact_every = impact_every
        self._open: dict[str, _Open] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {"team": [], "market": [], "impact": []}
        self._kept = 0
        self.pools: set[str] = set()
        self.tables = duckdb.connect(str(directory / "study.duckdb"))
        self.tables.execute(CREATE_TABLES)

    def take(self, head: CycleRecorded, market: RebuiltMarket, result: ClearedArrays) -> None:
        """Clear a market under the policy.

        Raises
        ------
        ArchiveError
            The policy makes a market that is not one.
        """
        self.pools.update(market.pools)
        arrays = self._policy.apply(market)
        other = cleared(arrays, head)
        runs = (("base", market.arrays, result), ("policy", arrays, other))
        teams: dict[str, Any] = {
            "market": [head.market] * len(market.teams),
            "cycle": [head.cycle] * len(market.teams),
            "pool": [market.pools[k] for k in market.arrays.pool_of_team.tolist()],
            "team": list(market.teams),
        }
        markets: dict[str, Any] = {"market": [head.market], "cycle": [head.cycle]}
        for run, columns, outcome in runs:
            teams |= {f"{run}_{name}": v for name, v in _team_columns(columns, outcome).items()}
            markets[f"{run}_price_micro"] = [outcome.reference_price_micro]
        self._open[head.market] = _Open(head.market_time_ms, teams, markets)
        if head.cycle % self._impact_every == 0:
            for run, columns, outcome in runs:
                self._keep("impact", _impact_rows(run, head, market, columns, outcome))

    def end(self, market: str, market_time_ms: int | None) -> None:
        """Keep the rows of a market's last cycle, which lasted until a time."""
        open_cycle = self._open.pop(market, None)
        if open_cycle is None:
            return
        lasted = None if market_time_ms is None else market_time_ms - open_cycle.since_ms
        for table, columns in (("team", open_cycle.teams), ("market", open_cycle.markets)):
            rows = len(columns["market"])
            self._keep(table, {**columns, "duration_ms": [lasted] * rows})

    def flush(self) -> None:
        """Put all kept rows into the tables."""
        self.tables.begin()
        for table, batches in self._rows.items():
            if batches:
                self.tables.register("batch", named_columns(batches))
                self.tables.execute(f"INSERT INTO {table}_cycle BY NAME SELECT * FROM batch")
                self.tables.unregister("batch")
            batches.clear()
        self.tables.commit()
        self._kept = 0

    def close(self) -> None:
        """Let go of the tables."""
        self.tables.close()

    def _keep(self, table: str, columns: Mapping[str, Any]) -> None:
        self._rows[table].append(dict(columns))
        self._kept += len(columns["market"])
        if self._kept >= BATCH_ROWS:
            self.flush()


def _team_columns(market: MarketArrays, result: ClearedArrays) -> dict[str, Any]:
    prices = result.price_micro[market.pool_of_team]
    return {
        "bid_micro_per_hour": market.bid_micro_per_hour,
        # A pool without a price gives nothing away at one.
        "price_micro": np.where(prices == ABSENT, 0, prices),
        "allocated_macc": result.allocated_macc,
        "opportunistic_macc": result.opportunistic_macc,
    }


def _impact_rows(
    run: str,
    head: CycleRecorded,
    market: RebuiltMarket,
    columns: MarketArrays,
    result: ClearedArrays,
) -> dict[str, Any]:
    without = prices_without(columns, head)
    count = len(market.pools)
    return {
        "market": [head.market] * count,
        "cycle": [head.cycle] * count,
        "run": [run] * count,
        "pool": list(market.pools),
        "price_micro": [result.reference_price_micro] * count,
        "price_without_micro": without,
    }
