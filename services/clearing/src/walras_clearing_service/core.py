"""The stage: folds the inputs, and decides one step at a time (design §3, step protocol §1)."""

from collections.abc import Mapping
from dataclasses import dataclass

from walras_clearing_service.bidder import BidPlan
from walras_clearing_service.books import Solver
from walras_clearing_service.cycle import (
    FAILURES_THAT_HALT,
    NO_JOBS,
    CycleDecision,
    MarketOutcome,
    Markets,
    decide,
    last_clearing,
)
from walras_clearing_service.handlers import FOLDS
from walras_clearing_service.model import CycleInput
from walras_clearing_service.payloads import quota_payloads
from walras_clearing_service.price_gaps import price_gap, remember_priced
from walras_clearing_service.quotas import is_told_to_all, team_quotas
from walras_clearing_service.reports import (
    cycle_recorded,
    cycle_summarised,
    pool_prices,
    price_published,
)
from walras_clearing_service.state import QUOTA, ClearingState
from walras_contracts.market import MarketState, PriceGapPublished
from walras_contracts.placing import PlacementMeasured
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import Output, Record, StateChange, Step, StepResult, emit


@dataclass(frozen=True, slots=True)
class Options:
    """How the stage is run.

    Parameters
    ----------
    cycle_every
        Barriers per cycle.
    settlement_lag_steps
        Steps by which balances and budgets are behind.
    live
        Whether a cycle is skipped when newer input is complete already.
    interval_ms
        Market time between two barriers.
    """

    cycle_every: int
    settlement_lag_steps: int
    live: bool
    interval_ms: int = 60_000


class ClearingStage:
    """Decides prices and quotas of all markets; a single leader."""

    def __init__(self, options: Options, solver: Solver) -> None:
        self._options = options
        self.markets = Markets(solver)
        self.state = ClearingState()

    def fold(self, record: Record) -> None:
        """Take a record of an input table into the state.

        Raises
        ------
        InvariantBrokenError
            No handler knows the record's type.
        """
        handler = FOLDS.get(record.type)
        if handler is None:
            raise InvariantBrokenError(f"{record.topic}: no handler for {record.type!r}")
        handler(self.state, record)

    def load(self, key: str, value: bytes) -> None:
        """Take one record of the own state topic."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Decide step n: a cycle at every `cycle_every`-th barrier, else nothing.

        Raises
        ------
        StepFailedError
            Clearing one market failed; the subject is the market.
        """
        changes = self.state.forget_left()
        changes += self._take_figures(step)
        if step.records.get("balances"):
            changes += self.state.settle(step.barrier.number - self._options.settlement_lag_steps)
        if step.barrier.number % self._options.cycle_every:
            return StepResult((), changes)
        stopped = tuple(
            sorted(name for name, count in step.failures.items() if count >= FAILURES_THAT_HALT)
        )
        number = step.barrier.number
        cycle_input = self.state.freeze(
            number // self._options.cycle_every, number, step.barrier.market_time_ms, stopped
        )
        newer_ready = step.newest_ready >= number + self._options.cycle_every
        if self._options.live and newer_ready:
            return StepResult(_skipped(cycle_input, step.late), changes)
        decision = decide(cycle_input, self.state.jobs, self.state.teams, self.markets)
        gaps = self._gaps(cycle_input, decision.outcomes)
        outputs = _market_outputs(cycle_input, decision.outcomes, step.late, gaps)
        changes += remember_priced(self.state, cycle_input, decision.outcomes)
        changes += self._remember_plan(decision.plan)
        changes += self._remember_clearings(cycle_input, decision)
        quota_outputs, quota_changes = self._quotas(cycle_input, decision)
        self.state.jobs.release_empty()
        return StepResult([*outputs, *quota_outputs], [*changes, *quota_changes])

    def _take_figures(self, step: Step) -> list[StateChange]:
        """Remember the stuck heads that placement told since the step before."""
        changes = []
        for record in step.records.get("placement.figures", ()):
            if not isinstance(record.event, PlacementMeasured):
                raise InvariantBrokenError(f"{record.topic}: no handler for {record.type!r}")
            change = self.state.take_stuck(record.event)
            if change is not None:
                changes.append(change)
        return changes

    def _gaps(
        self, cycle_input: CycleInput, outcomes: tuple[MarketOutcome, ...]
    ) -> dict[str, PriceGapPublished]:
        """Return by market the time without prices that this cycle ends."""
        cycle_ms = self._options.cycle_every * self._options.interval_ms
        cleared = [o.market.market for o in outcomes if o.cleared is not None]
        found = {name: price_gap(self.state, cycle_input, name, cycle_ms) for name in cleared}
        return {name: gap for name, gap in found.items() if gap is not None}

    def _remember_plan(self, plan: BidPlan) -> list[StateChange]:
        state = self.state
        moved = [state.assign(key, market) for key, market in plan.assigned.items()]
        marked = [state.mark_unplaceable(key, since) for key, since in plan.unplaceable.items()]
        return moved + marked

    def _remember_clearings(
        self, cycle_input: CycleInput, decision: CycleDecision
    ) -> list[StateChange]:
        changes = []
        for outcome in decision.outcomes:
            market, cleared = outcome.market, outcome.cleared
            if cleared is not None:
                last = last_clearing(market, cycle_input.pools, cleared.result, cycle_input.cycle)
                changes.append(self.state.remember_clearing(market.market, last))
        for name in sorted(self.state.last.keys() - self.state.supply.keys()):
            changes.append(self.state.remember_clearing(name, None))
        return changes

    def _quotas(
        self, cycle_input: CycleInput, decision: CycleDecision
    ) -> tuple[list[Output], list[StateChange]]:
        outputs: list[Output] = []
        changes: list[StateChange] = []
        state, cycle, now_ms = self.state, cycle_input.cycle, cycle_input.market_time_ms
        known = state.known_teams(now_ms)
        told_to_all = is_told_to_all(cycle, cycle_input.last)
        quotas = team_quotas(
            decision, state.teams, state.jobs.pools.names, known, dict(state.quotas)
        )
        for team, quota in quotas:
            last = state.quotas.get(team)
            # A team that was never told anything is not told that it has nothing.
            changed = quota != last if last is not None else bool(quota.markets)
            if not (changed or told_to_all):
                continue
            output, value = quota_payloads(team, quota, cycle, now_ms)
            outputs.append(output)
            if not changed:
                continue
            kept = bool(quota.markets)
            state.remember_quota(team, quota if kept else None)
            changes.append(StateChange(f"{QUOTA}{team}", value if kept else None))
        return outputs, changes


def _market_outputs(
    cycle_input: CycleInput,
    outcomes: tuple[MarketOutcome, ...],
    late: tuple[str, ...],
    gaps: Mapping[str, PriceGapPublished],
) -> list[Output]:
    outputs = []
    for outcome in outcomes:
        name, cleared = outcome.market.market, outcome.cleared
        pools = pool_prices(cycle_input, cleared.result if cleared is not None else None)
        if cleared is not None:
            if name in gaps:
                outputs.append(emit(gaps[name]))
            outputs.append(emit(price_published(cycle_input, name, cleared.result, pools)))
            outputs.extend(cleared.frame.parts)
        outputs.append(emit(cycle_recorded(cycle_input, outcome, late)))
        outputs.append(emit(cycle_summarised(cycle_input, outcome, pools)))
    return outputs


def _skipped(cycle_input: CycleInput, late: tuple[str, ...]) -> list[Output]:
    """Record a cycle that newer input overtook, so that numbers stay dense (step protocol §2)."""
    outcomes = tuple(
        MarketOutcome(market, MarketState.SKIPPED, "newer_barrier_ready", NO_JOBS, 0)
        for market in cycle_input.markets
    )
    return _market_outputs(cycle_input, outcomes, late, {})
