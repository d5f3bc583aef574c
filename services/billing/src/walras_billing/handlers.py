"""The stage: one table from topic to what is done with a step's records of it."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from walras_billing.accounts import AccountBook
from walras_billing.budgets import watch_budgets
from walras_billing.core import (
    Rules,
    Work,
    forget_old,
    rate_usage,
    take_drains,
    take_price,
    take_price_gap,
    take_usage,
)
from walras_billing.settlement import settle
from walras_billing.state import BillingState
from walras_billing.usage_faults import DAY_MS
from walras_contracts.accounts import AccountsChanged
from walras_contracts.identifiers import partition_of
from walras_contracts.market import PriceGapPublished, PricePublished
from walras_contracts.work import DrainStatusChanged, UsageMetered
from walras_runtime.records import Record, Step, StepResult

Handler = Callable[[Work, Sequence[Record]], None]


def _prices(work: Work, records: Sequence[Record]) -> None:
    # A gap's end is a price record where a price comes in its place.
    for record in records:
        if isinstance(record.event, PriceGapPublished):
            take_price_gap(work, record.event)
    for record in records:
        if isinstance(record.event, PricePublished):
            take_price(work, record.event)


HANDLERS: Final[Mapping[str, Handler]] = {
    PricePublished.TOPIC: _prices,
    UsageMetered.TOPIC: take_usage,
    DrainStatusChanged.TOPIC: take_drains,
}
"""In the order in which they are called: prices first, so that usage is rated by all that lies
before this barrier whatever the order within the step."""


class BillingStage:
    """Billing of one partition of teams as the loop runs it."""

    def __init__(self, partition: int, partitions: int, rules: Rules) -> None:
        self._is_mine = lru_cache(maxsize=None)(self._belongs)
        self.state = BillingState(AccountBook(self._is_mine))
        self._partition = partition
        self._partitions = partitions
        self._rules = rules

    def fold(self, record: Record) -> None:
        """Take a version of an account."""
        if isinstance(record.event, AccountsChanged):
            self.state.accounts.put(record.event)
            self.state.known.put(record.event)

    def load(self, key: str, value: bytes) -> None:
        """Take back one record of the state topic."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Take prices, usage and drains, rate and settle what is due, forget what is old."""
        state = self.state
        state.begin(step.barrier.market_time_ms)
        work = Work(state, self._rules, self._partition, step.barrier)
        for topic, handle in HANDLERS.items():
            handle(work, step.records[topic])
        rate_usage(work)
        forget_old(work)
        self._close(work, prices_came=bool(step.records[PricePublished.TOPIC]))
        state.clock_ms = work.now_ms
        return StepResult(work.outputs, state.changes())

    def _close(self, work: Work, *, prices_came: bool) -> None:
        """Settle what is due, then look at the budgets."""
        state, now_ms = work.state, work.now_ms
        before_ms = state.settled_ms
        work.outputs += settle(state, now_ms, self._rules.price_grace_ms, self._partition)
        settled = before_ms is not None and state.settled_ms != before_ms
        state.look_at_all |= prices_came
        work.outputs += watch_budgets(state, now_ms, self._partition, settled=settled)
        state.accounts.forget(now_ms - self._rules.look_back_ms - DAY_MS)

    def _belongs(self, team: str) -> bool:
        return partition_of(team, self._partitions) == self._partition
