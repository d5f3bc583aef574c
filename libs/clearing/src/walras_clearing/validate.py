"""The ranges within which a market is cleared exactly; beyond them it is refused (design §4)."""

import json
from typing import Final

from walras_clearing.errors import QUOTED_MAX, ClearingInputError
from walras_clearing.model import Market, Pool, Team

QUANTITY_MAX_MACC: Final = 10**15
"""Largest sum of the job sizes, and largest sum of all supplies, of one market."""

BIDS_MAX_MICRO_PER_HOUR: Final = 10**15
"""Largest sum of the bids of one pool."""

PRICE_MAX_MICRO: Final = 10**12
"""Largest limit and reserve price."""

WEIGHT_MAX: Final = 2**63 - 1


def validate(market: Market) -> None:
    """Check types, ranges, ids and references of a market.

    Raises
    ------
    ClearingInputError
        For the first fault found, with its JSON path.
    """
    supplies = _quantity("$.shared_supply_macc", market.shared_supply_macc, 0)
    _integer("$.reserve_price_micro", market.reserve_price_micro, PRICE_MAX_MICRO)
    _one_of("$.idle_own_supply", market.idle_own_supply, ("keep", "lend"))
    _one_of("$.margin", market.margin, ("pro_rata", "strict_order"))
    bids: dict[str, int] = {}
    for position, pool in enumerate(market.pools):
        supplies = _pool(f"$.pools[{position}]", pool, bids, supplies)
    seen: set[str] = set()
    sizes = 0
    for position, team in enumerate(market.teams):
        path = f"$.teams[{position}]"
        _identifier(f"{path}.team", team.team, seen)
        _bid(path, team, bids)
        sizes = _jobs(path, team, sizes)


def quoted(text: str) -> str:
    """Foreign text, made safe for a one-line message: JSON-escaped and cut."""
    short = text if len(text) <= QUOTED_MAX else text[:QUOTED_MAX] + "…"
    return json.dumps(short)


def _pool(path: str, pool: Pool, bids: dict[str, int], supplies: int) -> int:
    _identifier(f"{path}.pool", pool.pool, bids)
    bids[pool.pool] = 0
    _integer(f"{path}.weight", pool.weight, WEIGHT_MAX)
    return _quantity(f"{path}.own_supply_macc", pool.own_supply_macc, supplies)


def _bid(path: str, team: Team, bids: dict[str, int]) -> None:
    if not isinstance(team.pool, str):
        raise ClearingInputError("not_a_string", f"{path}.pool", "a pool id must be a string")
    if team.pool not in bids:
        message = f"no pool has the id {quoted(team.pool)}"
        raise ClearingInputError("unknown_pool", f"{path}.pool", message)
    where = f"{path}.bid_micro_per_hour"
    _integer(where, team.bid_micro_per_hour, BIDS_MAX_MICRO_PER_HOUR)
    bids[team.pool] += team.bid_micro_per_hour
    if bids[team.pool] > BIDS_MAX_MICRO_PER_HOUR:
        message = f"the bids of the pool exceed {BIDS_MAX_MICRO_PER_HOUR} in sum"
        raise ClearingInputError("sum_above_maximum", where, message)


def _jobs(path: str, team: Team, sizes: int) -> int:
    seen: set[str] = set()
    for place, job in enumerate(team.jobs):
        size, limit = job.size_macc, job.limit_micro
        # The usual case in one line; the slow checks below only name what is wrong.
        good = type(size) is int and 0 <= size <= QUANTITY_MAX_MACC - sizes
        fair = limit is None or (type(limit) is int and 0 <= limit <= PRICE_MAX_MICRO)
        if not (good and fair):
            where = f"{path}.jobs[{place}]"
            _quantity(f"{where}.size_macc", size, sizes)
            _integer(f"{where}.limit_micro", limit, PRICE_MAX_MICRO)
        if type(job.job) is not str or not job.job.isascii() or not job.job or job.job in seen:
            _identifier(f"{path}.jobs[{place}].job", job.job, seen)
        seen.add(job.job)
        sizes += size
    return sizes


def _quantity(path: str, value: object, total: int) -> int:
    total += _integer(path, value, QUANTITY_MAX_MACC)
    if total > QUANTITY_MAX_MACC:
        message = f"the sum in this market exceeds {QUANTITY_MAX_MACC} macc"
        raise ClearingInputError("sum_above_maximum", path, message)
    return total


def _integer(path: str, value: object, maximum: int) -> int:
    # bool is an int to Python and 1.0 equals 1; neither is a quantity.
    if type(value) is not int:
        message = f"must be an integer, was {type(value).__name__}"
        raise ClearingInputError("not_an_integer", path, message)
    if value < 0:
        raise ClearingInputError("negative", path, "must not be negative")
    if value > maximum:
        raise ClearingInputError("above_maximum", path, f"must not exceed {maximum}")
    return value


def _identifier(path: str, value: object, seen: set[str] | dict[str, int]) -> None:
    if not isinstance(value, str):
        message = f"an id must be a string, was {type(value).__name__}"
        raise ClearingInputError("not_a_string", path, message)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        message = "an id must be encodable as UTF-8"
        raise ClearingInputError("invalid_id", path, message) from error
    if not value:
        raise ClearingInputError("invalid_id", path, "an id must not be empty")
    if value in seen:
        message = f"the id {quoted(value)} occurs twice"
        raise ClearingInputError("duplicate_id", path, message)
    if isinstance(seen, set):
        seen.add(value)


def _one_of(path: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        message = f"must be one of {', '.join(allowed)}"
        raise ClearingInputError("unknown_policy", path, message)
