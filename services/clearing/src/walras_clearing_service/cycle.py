"""The numbered cycle: what is decided between the aligned inputs and the commit (design §3).

1. align        the runtime hands over complete inputs; the state folds them
2. freeze       one cycle input with a digest, over the columns of jobs and teams
3. bids         `plan_bids`, one bidder for all markets
4. clear        per open market, by its book; where first jobs of queues cannot use their quota and
                the market releases it, again after each cut of demand (`releasing`)
5. verify       every result, always, against the columns and not the book, so that a book that
                drifted from them is caught; a violation halts that market in this cycle
6. frames       what changed in each cleared market
7. commit       outputs and state, by the caller
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from walras_clearing.arrays import ABSENT, ClearedArrays, MarketArrays
from walras_clearing.coarse import COARSE_BELOW_MICRO, coarse_pool_numbers
from walras_clearing_service.bidder import BidPlan, plan_bids
from walras_clearing_service.books import (
    Books,
    Difference,
    Solver,
    difference_of,
    differences,
    forget_offer,
    market_arrays,
    remember_offer,
)
from walras_clearing_service.exact_sums import sum_of
from walras_clearing_service.frames import Frame, Framed, FramedTeams
from walras_clearing_service.job_table import JobTable, Rows
from walras_clearing_service.model import CycleInput, LastClearing, MarketInput, PoolInput
from walras_clearing_service.offers import MarketCount, Offer
from walras_clearing_service.releasing import Cut, Released, Releasing
from walras_clearing_service.team_table import TeamTable
from walras_contracts.accounts import Gate, IdleOwnSupply
from walras_contracts.market import MarketState
from walras_runtime.errors import StepFailedError

FAILURES_THAT_HALT = 3
NO_JOBS = MarketCount(0, 0, 0)
REASON_MAX = 500


@dataclass(frozen=True, slots=True, eq=False)
class Cleared:
    """A result that was accepted; pools by their place in id order, teams by number."""

    offer: Offer
    difference: Difference
    result: ClearedArrays
    teams: FramedTeams
    frame: Frame
    released: tuple[Released, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MarketOutcome:
    """How one market came out of the cycle; ``cleared`` is set where it was cleared."""

    market: MarketInput
    state: MarketState
    reason: str
    counts: MarketCount
    demand_macc: int
    cleared: Cleared | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CycleDecision:
    """All that a cycle decided, markets by id."""

    plan: BidPlan
    outcomes: tuple[MarketOutcome, ...]


@dataclass(slots=True, eq=False)
class Markets:
    """What is kept of the markets in memory between cycles, and nothing else depends on.

    Books and what was framed last can be dropped at any time: prices and quotas do not change, and
    the next frame is a key frame.
    """

    solver: Solver
    books: Books = field(init=False)
    framed: dict[str, FramedTeams] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.books = Books(self.solver)

    def forget(self, market: str, jobs: JobTable) -> None:
        """Drop the book of a market and what was framed of it."""
        self.books.drop(market)
        self.framed.pop(market, None)
        forget_offer(jobs, market)


def decide(
    cycle_input: CycleInput, jobs: JobTable, teams: TeamTable, markets: Markets
) -> CycleDecision:
    """Run steps 3 to 6 of the cycle.

    Raises
    ------
    StepFailedError
        The clearing of one market failed; its subject is the market.
    """
    plan = plan_bids(cycle_input, jobs, teams)
    found = differences(jobs, plan.offers)
    cycle = _Cycle(cycle_input, jobs, teams, markets, plan)
    try:
        outcomes = tuple(
            cycle.outcome(market, found.get(market.market)) for market in cycle_input.markets
        )
    except StepFailedError:
        # Some books were fed, and the columns do not say so.
        markets.books.drop_all()
        raise
    cleared = {o.market.market: o.cleared for o in outcomes if o.cleared is not None}
    # A market that halted has a book that the columns know nothing of, framed before or not.
    for name in sorted((markets.framed.keys() | markets.books.held()) - cleared.keys()):
        markets.forget(name, jobs)
    for name, kept in cleared.items():
        remember_offer(jobs, name, kept.offer, kept.difference)
        markets.framed[name] = kept.teams
    return CycleDecision(plan, outcomes)


@dataclass(frozen=True, slots=True, eq=False)
class _Cycle:
    """One cycle while its markets are cleared."""

    cycle_input: CycleInput
    jobs: JobTable
    teams: TeamTable
    markets: Markets
    plan: BidPlan

    def outcome(self, market: MarketInput, difference: Difference | None) -> MarketOutcome:
        """Clear one market, or say why it is not cleared."""
        name = market.market
        counts = self.plan.counts.get(name, NO_JOBS)
        if market.gate is not Gate.ON:
            # Shadow markets are treated as off: they get no bids and publish nothing of their own.
            return MarketOutcome(market, MarketState.OFF, f"gate_{market.gate}", counts, 0)
        if name in self.cycle_input.stopped:
            return MarketOutcome(market, MarketState.HALTED, "failed_on_barrier", counts, 0)
        assert difference is not None
        offer = self.plan.offers[name]
        cleared = None
        try:
            auction = self._auction(market, offer, difference)
            violations = auction.clear()
            if not violations and name in self.cycle_input.stuck:
                violations = self._release(auction)
            if not violations:
                cleared = self._accepted(name, auction)
        except Exception as error:
            # Whatever broke, the other markets must be able to go on without this one.
            reason = f"cycle {self.cycle_input.cycle}, market {name}: {error}"
            raise StepFailedError(name, reason) from error
        demand_macc = sum_of(offer.size_macc)
        if violations:
            reason = f"verify_failed: {len(violations)}; {violations[0]}"[:REASON_MAX]
            return MarketOutcome(market, MarketState.HALTED, reason, counts, demand_macc)
        reason = self._coarse(auction.result)
        return MarketOutcome(market, MarketState.CLEARED, reason, counts, demand_macc, cleared)

    def _coarse(self, result: ClearedArrays) -> str:
        """Say where prices have so few ticks that supply may stay unsold (design §4)."""
        coarse = coarse_pool_numbers(result)
        if not coarse:
            return ""
        first, pools = self.cycle_input.pools[coarse[0]].pool, len(self.cycle_input.pools)
        return (
            f"coarse_prices: {len(coarse)} of {pools} below {COARSE_BELOW_MICRO} ticks, "
            f"the first in {first}"
        )

    def _auction(self, market: MarketInput, offer: Offer, difference: Difference) -> "_Auction":
        arrays = market_arrays(
            market,
            self.cycle_input.pools,
            offer,
            self.plan.bids[market.market],
            pool_index=self.plan.pool_index,
            team_order=self.teams.in_order(),
        )
        return _Auction(self.markets, market.market, offer, difference, arrays)

    def _release(self, auction: "_Auction") -> Sequence[object]:
        """Cut the demand of teams whose first jobs cannot use their quota, and clear again.

        Every result is verified: what is cut depends on it.
        """
        releasing = Releasing(
            self.cycle_input.stuck[auction.market],
            self.jobs,
            self.teams,
            self.plan.pool_index,
            auction.offer,
        )
        while True:
            cut = releasing.next_cut(auction.offer, auction.result)
            if cut is None:
                auction.released = releasing.released
                return ()
            violations = auction.clear_again(cut)
            if violations:
                return violations

    def _accepted(self, name: str, auction: "_Auction") -> Cleared:
        cycle, bids = self.cycle_input.cycle, self.plan.bids[name]
        offer, result, difference = auction.offer, auction.result, auction.difference
        if auction.released:
            cut = np.concatenate([difference.gone[:0], *auction.gone])
            # What came and was cut in one cycle was never held.
            was_held = self.jobs.offered_in[cut] == self.jobs.markets.number(name)
            gone = np.concatenate([difference.gone, cut[was_held]])
            difference = difference_of(self.jobs, name, offer, gone)
        now = FramedTeams.of(cycle, self.teams, offer, bids, result)
        frame = Framed(
            market=name,
            cycle=cycle,
            market_time_ms=self.cycle_input.market_time_ms,
            jobs=self.jobs,
            teams=self.teams,
            offer=offer,
            difference=difference,
            now=now,
            before=self.markets.framed.get(name),
        ).frame()
        return Cleared(offer, difference, result, now, frame, auction.released)


@dataclass(slots=True, eq=False)
class _Auction:
    """The auction of one market while it is cleared, again where demand is released."""

    markets: Markets
    market: str
    offer: Offer
    difference: Difference
    arrays: MarketArrays
    result: ClearedArrays = field(init=False)
    released: tuple[Released, ...] = ()
    gone: list[Rows] = field(default_factory=list)
    """Rows that are not offered any more."""

    def clear(self) -> Sequence[object]:
        """Clear the market; return what is wrong with the result."""
        return self._clear(self.difference)

    def clear_again(self, cut: Cut) -> Sequence[object]:
        """Clear the market with what is left of its offer."""
        self.offer = offer = cut.offer
        self.arrays = replace(
            self.arrays,
            team_of_job=offer.team,
            size_macc=offer.size_macc,
            limit_micro=offer.limit_micro,
        )
        self.gone.append(cut.difference.gone)
        return self._clear(cut.difference)

    def _clear(self, difference: Difference) -> Sequence[object]:
        self.result = self.markets.books.clear(self.market, self.arrays, self.offer, difference)
        return self.markets.solver.verify(self.arrays, self.result)


def last_clearing(
    market: MarketInput, pools: Sequence[PoolInput], result: ClearedArrays, cycle: int
) -> LastClearing:
    """Return what the next cycle needs to know of a cleared market."""
    lends = market.idle_own_supply is IdleOwnSupply.LEND
    unsold, idle, prices = market.shared_macc, {}, {}
    rows = zip(
        pools,
        result.price_micro.tolist(),
        result.purchased_macc.tolist(),
        result.pool_allocated_macc.tolist(),
        strict=True,
    )
    for pool, price, purchased, allocated in rows:
        # At price 0 all funded demand is served, so what is left of the own supply is idle.
        spare = max(0, market.own_macc.get(pool.pool, 0) - allocated)
        unsold += (spare if lends else 0) - purchased
        prices[pool.pool] = None if price == ABSENT else price
        if price == 0 and spare:
            idle[pool.pool] = spare
    return LastClearing(cycle, result.reference_price_micro, prices, max(0, unsold), idle)
