"""Specification of how a cycle's markets go to the auction, and what is remembered of them."""

from walras_clearing import ClearingResult, Market, Pool, Team
from walras_clearing_service.model import LastClearing, MarketInput, PoolInput
from walras_clearing_service.reference_bidder import TeamBid
from walras_contracts.accounts import IdleOwnSupply


def last_clearing(market: MarketInput, result: ClearingResult, cycle: int) -> LastClearing:
    """Return what the next cycle needs to know of a cleared market."""
    own = market.own_macc
    lends = market.idle_own_supply is IdleOwnSupply.LEND
    unsold, idle = market.shared_macc, {}
    for name, pool in result.pools.items():
        # At price 0 all funded demand is served, so what is left of the own supply is idle.
        spare = max(0, own.get(name, 0) - pool.allocated_macc)
        unsold += (spare if lends else 0) - pool.purchased_macc
        if pool.price_micro == 0 and spare:
            idle[name] = spare
    return LastClearing(
        cycle=cycle,
        reference_price_micro=result.reference_price_micro,
        pool_prices_micro={name: pool.price_micro for name, pool in result.pools.items()},
        unsold_macc=max(0, unsold),
        idle_own_macc=idle,
    )


def market_of(
    market: MarketInput, pools: tuple[PoolInput, ...], bids: tuple[TeamBid, ...]
) -> Market:
    """Return a market as the clearing library takes it."""
    return Market(
        shared_supply_macc=market.shared_macc,
        pools=tuple(
            Pool(pool.pool, market.own_macc.get(pool.pool, 0), pool.weight_micro_per_hour)
            for pool in pools
        ),
        teams=tuple(Team(bid.team, bid.pool, bid.bid_micro_per_hour, bid.jobs) for bid in bids),
        reserve_price_micro=market.reserve_price_micro,
        idle_own_supply=market.idle_own_supply.value,
        margin=market.margin.value,
    )
