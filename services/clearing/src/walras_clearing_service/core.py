"""The stage: folds the inputs, and decides one step at a time (design §3, step protocol §1)."""

from dataclasses import dataclass

from walras_clearing_service.bidder import BidPlan
from walras_clearing_service.cycle import (
    FAILURES_THAT_HALT,
    NO_JOBS,
    CycleDecision,
    MarketOutcome,
    Solver,
    decide,
    last_clearing,
)
from walras_clearing_service.handlers import FOLDS
from walras_clearing_service.model import CycleInput
from walras_clearing_service.quotas import granted, is_told, team_quotas
from walras_clearing_service.reports import (
    cycle_recorded,
    cycle_summarised,
    pool_prices,
    price_published,
)
from walras_clearing_service.state import ClearingState
from walras_contracts.market import MarketState
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
    """

    cycle_every: int
    settlement_lag_steps: int
    live: bool


class ClearingStage:
    """Decides prices and quotas of all markets; a single leader."""

    def __init__(self, options: Options, solver: Solver) -> None:
        self._options = options
        self._solver = solver
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
        decision = decide(cycle_input, self._solver)
        outputs = _market_outputs(cycle_input, decision.outcomes, step.late)
        changes += self._remember_plan(decision.plan)
        changes += self._remember_clearings(cycle_input, decision)
        quota_outputs, quota_changes = self._quotas(cycle_input, decision)
        return StepResult([*outputs, *quota_outputs], [*changes, *quota_changes])

    def _remember_plan(self, plan: BidPlan) -> list[StateChange]:
        state = self.state
        moved = [state.assign(key, plan.assigned[key]) for key in sorted(plan.assigned)]
        marked = [
            state.mark_unplaceable(key, plan.unplaceable[key]) for key in sorted(plan.unplaceable)
        ]
        return moved + marked

    def _remember_clearings(
        self, cycle_input: CycleInput, decision: CycleDecision
    ) -> list[StateChange]:
        changes = []
        for outcome in decision.outcomes:
            last = last_clearing(outcome, cycle_input.cycle)
            if last is not None:
                changes.append(self.state.remember_clearing(outcome.market.market, last))
        for name in sorted(self.state.last.keys() - self.state.supply.keys()):
            changes.append(self.state.remember_clearing(name, None))
        return changes

    def _quotas(
        self, cycle_input: CycleInput, decision: CycleDecision
    ) -> tuple[list[Output], list[StateChange]]:
        outputs, changes = [], []
        before = self.state.quotas
        known = self.state.known_teams(cycle_input.market_time_ms)
        now = team_quotas(cycle_input, decision.outcomes, known, before)
        for team, quota in now.items():
            last = before.get(team)
            if is_told(quota, last, cycle_input.cycle):
                event = granted(team, quota, cycle_input.cycle, cycle_input.market_time_ms)
                outputs.append(emit(event))
            kept = quota if quota.entries else None
            if kept != last:
                changes.append(self.state.remember_quota(team, kept))
        return outputs, changes


def _market_outputs(
    cycle_input: CycleInput, outcomes: tuple[MarketOutcome, ...], late: tuple[str, ...]
) -> list[Output]:
    digest = cycle_input.digest()
    outputs = []
    for outcome in outcomes:
        pools = pool_prices(cycle_input, outcome.result)
        if outcome.result is not None:
            outputs.append(emit(price_published(cycle_input, outcome, pools)))
        record = cycle_recorded(cycle_input, outcome, pools, digest=digest, late=late)
        outputs.append(emit(record))
        outputs.append(emit(cycle_summarised(cycle_input, outcome, pools)))
    return outputs


def _skipped(cycle_input: CycleInput, late: tuple[str, ...]) -> list[Output]:
    """Record a cycle that newer input overtook, so that numbers stay dense (step protocol §2)."""
    outcomes = tuple(
        MarketOutcome(market, MarketState.SKIPPED, "newer_barrier_ready", (), NO_JOBS, None)
        for market in cycle_input.markets
    )
    return _market_outputs(cycle_input, outcomes, late)
