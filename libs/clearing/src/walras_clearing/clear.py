"""`clear` and `clear_arrays`: one market, cold."""

import numpy as np

from walras_clearing.arrays import ClearedArrays, MarketArrays
from walras_clearing.book import cleared, heaviest_first
from walras_clearing.columns import checked
from walras_clearing.kernel import Kernel
from walras_clearing.model import ClearingResult, Market, PriceHint
from walras_clearing.pack import pack, unpack
from walras_clearing.validate import validate

PRICE_REACH_MICRO = 10**18
"""No price of a market in range lies above it by more than one tick."""


def clear(market: Market, *, hint: PriceHint | None = None) -> ClearingResult:
    """Clear one market exactly (design §4).

    Parameters
    ----------
    market
        The market; prices in µcr per accelerator-hour, quantities in macc, bids in µcr per hour.
    hint
        Prices near the expected ones, such as those of the last cycle. It saves time and changes
        nothing else.

    Returns
    -------
    ClearingResult
        Prices, quantities and the certificate; a function of `market` alone, bit for bit.

    Raises
    ------
    ClearingInputError
        When the market is outside the ranges of design §4.
    """
    validate(market)
    packed = pack(market)
    kernel = _loaded(packed.arrays)
    if hint is not None:
        known = hint.pool_prices_micro
        prices = [_in_range(known.get(pool, 0)) for pool in packed.pool_ids]
        kernel.hint(_in_range(hint.reference_price_micro), np.array(prices, dtype=np.int64))
    return unpack(packed, cleared(kernel, market.reserve_price_micro))


def clear_arrays(market: MarketArrays) -> ClearedArrays:
    """Clear one market given in columns, exactly (design §4).

    Parameters
    ----------
    market
        The market; jobs in any order.

    Returns
    -------
    ClearedArrays
        By pool and team number; the same figures as `clear` gives.

    Raises
    ------
    ClearingInputError
        When a column or a value is outside the ranges of design §4.
    """
    return cleared(_loaded(checked(market)), market.reserve_price_micro)


def _loaded(market: MarketArrays) -> Kernel:
    kernel = Kernel(len(market.own_supply_macc))
    kernel.set_policies(
        market.reserve_price_micro,
        market.idle_own_supply == "lend",
        market.margin == "strict_order",
    )
    kernel.set_supply(market.shared_supply_macc, market.own_supply_macc)
    kernel.set_order(heaviest_first(market.pool_weight))
    kernel.set_teams(market.pool_of_team, market.team_order)
    kernel.set_bids(market.bid_micro_per_hour)
    kernel.load(market.team_of_job, market.size_macc, market.limit_micro, None, 0)
    return kernel


def _in_range(price: int) -> int:
    return max(0, min(price, PRICE_REACH_MICRO))
