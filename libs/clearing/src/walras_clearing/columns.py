"""Checks of markets in columns: kinds, lengths and ranges of design §4."""

from typing import Any, Final

import numpy as np

from walras_clearing.arrays import NO_LIMIT, Column, MarketArrays, Numbers
from walras_clearing.errors import ClearingInputError
from walras_clearing.kernel import first_beyond
from walras_clearing.validate import (
    BIDS_MAX_MICRO_PER_HOUR,
    PRICE_MAX_MICRO,
    QUANTITY_MAX_MACC,
    WEIGHT_MAX,
)

ROWS_MAX: Final = 2**31 - 1
"""Most teams, and most jobs, of a market in columns."""


def checked(market: MarketArrays) -> MarketArrays:
    """Return the market with columns as the kernel takes them; jobs are checked by the kernel.

    Raises
    ------
    ClearingInputError
        A column has the wrong kind of values or the wrong length, or a value is out of range.
    """
    pools = len(market.own_supply_macc)
    teams = _rows("pool_of_team", market.pool_of_team)
    jobs = _rows("team_of_job", market.team_of_job)
    pool_of_team = numbers("pool_of_team", market.pool_of_team, teams, pools, "unknown_pool")
    bids = column("bid_micro_per_hour", market.bid_micro_per_hour, teams, BIDS_MAX_MICRO_PER_HOUR)
    check_bids(bids, pool_of_team, pools)
    own = column("own_supply_macc", market.own_supply_macc, pools, QUANTITY_MAX_MACC)
    check_supply(market.shared_supply_macc, own)
    check_policies(market.reserve_price_micro, market.idle_own_supply, market.margin)
    return MarketArrays(
        shared_supply_macc=market.shared_supply_macc,
        own_supply_macc=own,
        pool_weight=column("pool_weight", market.pool_weight, pools, WEIGHT_MAX),
        pool_of_team=pool_of_team,
        bid_micro_per_hour=bids,
        team_of_job=whole("team_of_job", market.team_of_job, jobs, np.int32),
        size_macc=whole("size_macc", market.size_macc, jobs, np.int64),
        limit_micro=whole("limit_micro", market.limit_micro, jobs, np.int64),
        reserve_price_micro=market.reserve_price_micro,
        idle_own_supply=market.idle_own_supply,
        margin=market.margin,
        team_order=order_of(market.team_order, teams),
    )


def _rows(name: str, values: Any) -> int:
    # The kernel counts the jobs of a team, and the teams, in 32 bits.
    rows = len(values)
    if rows > ROWS_MAX:
        message = f"has {rows} rows, must not exceed {ROWS_MAX}"
        raise ClearingInputError("above_maximum", name, message)
    return rows


def check_policies(reserve_price_micro: int, idle_own_supply: str, margin: str) -> None:
    """Refuse policies that are not known and a reserve out of range."""
    integer("reserve_price_micro", reserve_price_micro, PRICE_MAX_MICRO)
    for name, value, allowed in (
        ("idle_own_supply", idle_own_supply, ("keep", "lend")),
        ("margin", margin, ("pro_rata", "strict_order")),
    ):
        if value not in allowed:
            raise ClearingInputError("unknown_policy", name, f"must be one of {', '.join(allowed)}")


def check_supply(shared_macc: int, own_macc: Column) -> None:
    """Refuse supplies whose sum is out of range."""
    integer("shared_supply_macc", shared_macc, QUANTITY_MAX_MACC)
    # Each is at most 10^15: a million of them would leave 64 bits, so the sum is one of objects.
    if shared_macc + sum(own_macc.tolist()) > QUANTITY_MAX_MACC:
        message = f"the sum in this market exceeds {QUANTITY_MAX_MACC} macc"
        raise ClearingInputError("sum_above_maximum", "own_supply_macc", message)


def check_bids(bids: Column, pool_of_team: Numbers, pools: int) -> None:
    """Refuse bids whose sum in a pool is out of range."""
    team = first_beyond(bids, pool_of_team, pools, BIDS_MAX_MICRO_PER_HOUR)
    if team >= 0:
        message = f"the bids of its pool exceed {BIDS_MAX_MICRO_PER_HOUR} in sum"
        raise ClearingInputError("sum_above_maximum", f"bid_micro_per_hour[{team}]", message)


def column(name: str, values: Any, length: int, maximum: int) -> Column:
    """Return a column of int64 between 0 and `maximum`."""
    found: Column = whole(name, values, length, np.int64)
    if len(found):
        if found.min() < 0:
            at = int(found.argmin())
            raise ClearingInputError("negative", f"{name}[{at}]", "must not be negative")
        if found.max() > maximum:
            at = int(found.argmax())
            raise ClearingInputError("above_maximum", f"{name}[{at}]", f"must not exceed {maximum}")
    return found


def numbers(name: str, values: Any, length: int, bound: int, code: str) -> Numbers:
    """Return a column of int32 numbers below a bound."""
    found: Numbers = whole(name, values, length, np.int32)
    if len(found):
        at = int(found.argmin()) if found.min() < 0 else int(found.argmax())
        if not 0 <= found[at] < bound:
            raise ClearingInputError(code, f"{name}[{at}]", f"{found[at]} is not below {bound}")
    return found


def order_of(values: Any, length: int) -> Numbers | None:
    """Return an order of teams, which must name each once."""
    if values is None:
        return None
    found = numbers("team_order", values, length, length, "unknown_team")
    if len(found) and np.bincount(found, minlength=length).max() > 1:
        message = "must name every team once"
        raise ClearingInputError("duplicate_id", "team_order", message)
    return found


def whole(name: str, values: Any, length: int, kind: Any) -> Any:
    """Return a contiguous column of a kind of integer, refusing any other kind of number."""
    found = np.asarray(values)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise ClearingInputError("not_an_integer", name, "must be a column of integers")
    if len(found) != length:
        message = f"has {len(found)} rows, must have {length}"
        raise ClearingInputError("wrong_length", name, message)
    most = np.iinfo(kind)
    if len(found) and found.dtype != kind:
        if int(found.max()) > most.max or int(found.min()) < most.min:
            raise ClearingInputError("above_maximum", name, f"must fit {most.bits} bits")
        found = found.astype(kind)
    return np.ascontiguousarray(found, dtype=kind)


def integer(name: str, value: Any, maximum: int) -> int:
    """Return an integer between 0 and `maximum`."""
    if type(value) is not int:
        message = f"must be an integer, was {type(value).__name__}"
        raise ClearingInputError("not_an_integer", name, message)
    if value < 0:
        raise ClearingInputError("negative", name, "must not be negative")
    if value > maximum:
        raise ClearingInputError("above_maximum", name, f"must not exceed {maximum}")
    return value


def limit_of(name: str, limit_micro: int | None) -> int:
    """Return a limit as columns hold it."""
    return NO_LIMIT if limit_micro is None else integer(name, limit_micro, PRICE_MAX_MICRO)
