"""How much a pool moves the reference price: the market cleared without it."""

from dataclasses import replace

import numpy as np

from walras.replay.replaying import cleared
from walras_clearing.arrays import MarketArrays
from walras_contracts.market import CycleRecorded


def without_pool(market: MarketArrays, number: int) -> MarketArrays:
    """Return the market as it were if a pool had no supply and none of its teams bid.

    Its jobs are left in: those of a team that bids nothing set no price.
    """
    own = market.own_supply_macc.copy()
    own[number] = 0
    members = market.pool_of_team == number
    bids = np.where(members, 0, market.bid_micro_per_hour)
    return replace(market, own_supply_macc=own, bid_micro_per_hour=bids)


def prices_without(market: MarketArrays, head: CycleRecorded) -> list[int | None]:
    """Return the reference price without each pool, in µcr per accelerator-hour.

    None where the market has no shared supply, and so no such price. That a pool which lends its
    idle supply takes it along is part of its impact.
    """
    pools = range(len(market.own_supply_macc))
    return [cleared(without_pool(market, k), head).reference_price_micro for k in pools]
