"""An independent count of the money on a log: what was minted, and what use cost.

It shares no code with billing: fractions instead of running numerators, scans instead of a history.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from walras_runtime.memory.log import MemoryLog

HOUR_MS = 3_600_000
GRACE_MS = 60_000

Document = dict[str, Any]


@dataclass(frozen=True)
class Money:
    """What a log says: per team the last balance; per pool what its weight mints until then."""

    balances: dict[str, Document]
    teams: dict[str, set[str]]
    earned: dict[str, Fraction]
    spent: dict[str, Fraction]
    charged: dict[str, Fraction]
    """By the charge lines, where ``spent`` is counted from usage and prices."""
    minted: dict[str, Fraction]


def documents(log: MemoryLog, topic: str) -> list[Document]:
    """Return the payloads of a topic, partition by partition."""
    return [
        json.loads(entry.payload)
        for partition in log.partitions(topic)
        for entry in log.read(topic, partition, 0)
        if entry.barrier is None and entry.payload is not None
    ]


def count(log: MemoryLog) -> Money:
    """Count the money until the last settled boundary."""
    balances = {balance["team"]: balance for balance in documents(log, "balances")}
    (boundary_ms,) = {balance["boundary_ms"] for balance in balances.values()}
    earned: dict[str, Fraction] = defaultdict(Fraction)
    minted: dict[str, Fraction] = defaultdict(Fraction)
    teams: dict[str, set[str]] = defaultdict(set)
    for pool, spans in _pools(log, boundary_ms).items():
        for hours, document in spans:
            weight, members = document["weight_micro_per_hour"], document["teams"]
            local = sum(member["income_local_per_hour"] for member in members)
            minted[pool] += weight * hours if local else 0
            for member in members if local else ():
                share = Fraction(member["income_local_per_hour"], local)
                earned[member["team"]] += weight * hours * share
                teams[pool].add(member["team"])
    settled_ms = _settled_ms(log, boundary_ms)
    spent, charged = _spent(log, settled_ms - GRACE_MS), _charged(log, settled_ms)
    return Money(balances, teams, earned, spent, charged, minted)


def check(money: Money) -> None:
    """Compare every balance with the count.

    Raises
    ------
    AssertionError
        A balance is not what its team earned less what it used, or the charge lines are something
        else; or a pool minted something else than its weight.
    """
    for team, balance in money.balances.items():
        # An hour of income is far below the cap, so nothing expires.
        assert balance["expired_micro"] == 0, f"{team}: expired"
        assert balance["earned_micro"] == round(money.earned[team]), f"{team}: earned"
        assert money.charged[team] == money.spent[team], f"{team}: charged"
        assert balance["spent_micro"] == round(money.spent[team]), f"{team}: spent"
        left = balance["earned_micro"] - balance["spent_micro"]
        assert balance["wallet_micro"] == left, f"{team}: wallet"
    for pool, members in money.teams.items():
        # The one that rounds is each team's running total: half a tick each.
        total = sum(money.balances[team]["earned_micro"] for team in members)
        assert abs(total - money.minted[pool]) <= Fraction(len(members), 2), f"{pool}: minted"


def _pools(log: MemoryLog, until_ms: int) -> dict[str, list[tuple[Fraction, Document]]]:
    """Return each pool's documents with how long, in hours, each counted."""
    versions: dict[str, list[tuple[int, Document]]] = defaultdict(list)
    for change in sorted(documents(log, "accounts"), key=lambda c: int(c["version"])):
        if change["document"]["kind"] == "pool":
            versions[change["document"]["pool"]].append(
                (change["effective_ms"], change["document"])
            )
    return {
        pool: [
            (Fraction(max(0, min(end_ms, until_ms) - start_ms), HOUR_MS), document)
            for (start_ms, document), (end_ms, _) in pairwise([*found, (until_ms, {})])
        ]
        for pool, found in versions.items()
    }


def _settled_ms(log: MemoryLog, boundary_ms: int) -> int:
    """Return the market time of the step that settled a boundary: the first after the grace."""
    times = [e.barrier.market_time_ms for e in log.read("usage", 0, 0) if e.barrier is not None]
    return min(time_ms for time_ms in times if time_ms >= boundary_ms + GRACE_MS)


def _charged(log: MemoryLog, settled_ms: int) -> dict[str, Fraction]:
    """Return what the charge lines of the steps up to a settlement add up to; each id once."""
    charged: dict[str, Fraction] = defaultdict(Fraction)
    seen: set[str] = set()
    for partition in log.partitions("charges"):
        for entry in log.read("charges", partition, 0):
            if entry.barrier is not None and entry.barrier.market_time_ms >= settled_ms:
                break
            if entry.barrier is None and entry.payload is not None:
                line = json.loads(entry.payload)
                assert line["charge_id"] not in seen, f"{line['charge_id']}: charged twice"
                seen.add(line["charge_id"])
                # Micro-credits per hour and accelerator, times millionths, macc and ms.
                charged[line["team"]] += Fraction(int(line["amount_numerator"]), 36 * 10**14)
    return charged


def _spent(log: MemoryLog, until_ms: int) -> dict[str, Fraction]:
    """Return what the use that ended by a time costs each team; each interval counts once."""
    prices: dict[tuple[str, str], dict[int, int | None]] = defaultdict(dict)
    markets: dict[str, set[int]] = defaultdict(set)
    for record in documents(log, "prices"):
        markets[record["market"]].add(record["market_time_ms"])
        for pool in record["pools"]:
            prices[record["market"], pool["pool"]][record["market_time_ms"]] = pool["price_micro"]
    changes = {market: sorted(times) for market, times in markets.items()}
    spent: dict[str, Fraction] = defaultdict(Fraction)
    seen: set[tuple[str, str, int, int]] = set()
    for use in documents(log, "usage"):
        source = (use["lease"], use["node"], use["attempt"], use["seq"])
        free = use["work_class"] == "opportunistic" or not use["billable"]
        if source in seen or free or use["end_ms"] > until_ms:
            continue
        seen.add(source)
        cost = _cost(use, prices[use["market"], use["pool"]], changes.get(use["market"], []))
        spent[use["team"]] += cost if cost is not None else 0
    return spent


def _cost(use: Document, prices: dict[int, int | None], changes: list[int]) -> Fraction | None:
    """Return what an interval costs; None where no price was in force: it is not charged."""
    start_ms, end_ms, limit = use["start_ms"], use["end_ms"], use["limit_micro"]
    edges = [start_ms, *(t for t in changes if start_ms < t < end_ms), end_ms]
    total = Fraction(0)
    for begin_ms, finish_ms in pairwise(edges):
        before = [t for t in changes if t <= begin_ms]
        price = prices.get(before[-1]) if before else None
        if price is None:
            return None
        micro = price if limit is None else min(price, limit)
        hours = Fraction(finish_ms - begin_ms, HOUR_MS)
        total += micro * hours * Fraction(use["quantity_macc"], 1000)
    return total * Fraction(use["tariff_ppm"], 10**6)
