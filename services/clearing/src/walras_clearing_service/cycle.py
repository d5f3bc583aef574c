"""The numbered cycle: what is decided between the aligned inputs and the commit (design §3).

1. align        the runtime hands over complete inputs; the state folds them
2. freeze       one frozen cycle input with a digest
3. bids         `plan_bids`, one bidder for all markets
4. clear        per open market
5. verify       every result, always; a violation halts that market in this cycle
6. commit       outputs and state, by the caller
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from walras_clearing import ClearingResult, Market, Pool, Team
from walras_clearing_service.bidder import BidPlan, MarketCount, TeamBid, plan_bids
from walras_clearing_service.model import CycleInput, LastClearing, MarketInput, PoolInput
from walras_contracts.accounts import Gate, IdleOwnSupply
from walras_contracts.market import MarketState
from walras_runtime.errors import StepFailedError

FAILURES_THAT_HALT = 3
NO_JOBS = MarketCount(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Solver:
    """The auction and its checker, as the clearing library provides them.

    ``verify`` returns what is wrong with a result; nothing means that it is right.
    """

    clear: Callable[[Market], ClearingResult]
    verify: Callable[[Market, ClearingResult], Sequence[object]]


@dataclass(frozen=True, slots=True)
class MarketOutcome:
    """How one market came out of the cycle; ``result`` is set where it was cleared."""

    market: MarketInput
    state: MarketState
    reason: str
    bids: tuple[TeamBid, ...]
    counts: MarketCount
    result: ClearingResult | None


@dataclass(frozen=True, slots=True)
class CycleDecision:
    """All that a cycle decided, markets by id."""

    plan: BidPlan
    outcomes: tuple[MarketOutcome, ...]


def decide(cycle_input: CycleInput, solver: Solver) -> CycleDecision:
    """Run steps 3 to 5 of the cycle.

    Raises
    ------
    StepFailedError
        The clearing of one market failed; its subject is the market.
    """
    plan = plan_bids(cycle_input)
    outcomes = tuple(_outcome(market, cycle_input, plan, solver) for market in cycle_input.markets)
    return CycleDecision(plan, outcomes)


def last_clearing(outcome: MarketOutcome, cycle: int) -> LastClearing | None:
    """Return what the next cycle needs to know of a cleared market; None where it was not."""
    result = outcome.result
    if result is None:
        return None
    market = outcome.market
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


def _outcome(
    market: MarketInput, cycle_input: CycleInput, plan: BidPlan, solver: Solver
) -> MarketOutcome:
    name = market.market
    counts = plan.counts.get(name, NO_JOBS)
    if market.gate is not Gate.ON:
        # Shadow markets are treated as off: they get no bids and publish nothing of their own.
        return MarketOutcome(market, MarketState.OFF, f"gate_{market.gate}", (), counts, None)
    if name in cycle_input.stopped:
        return MarketOutcome(market, MarketState.HALTED, "failed_on_barrier", (), counts, None)
    bids = plan.bids[name]
    try:
        auction = market_of(market, cycle_input.pools, bids)
        result = solver.clear(auction)
        violations = solver.verify(auction, result)
    except Exception as error:
        # Whatever broke, the other markets must be able to go on without this one.
        raise StepFailedError(name, f"cycle {cycle_input.cycle}, market {name}: {error}") from error
    if violations:
        reason = f"verify_failed: {len(violations)}; {violations[0]}"[:500]
        return MarketOutcome(market, MarketState.HALTED, reason, bids, counts, None)
    return MarketOutcome(market, MarketState.CLEARED, "", bids, counts, result)
