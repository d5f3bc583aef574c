"""The stage: one table from event type to what is done with it."""

from collections.abc import Callable, Mapping
from typing import Final

from walras_billing.core import retry_pending, take_price, take_usage
from walras_billing.settlement import settle
from walras_billing.state import PRICE, BillingState
from walras_contracts.accounts import AccountsChanged
from walras_contracts.identifiers import partition_of
from walras_contracts.market import PricePublished
from walras_contracts.work import UsageMetered
from walras_runtime.records import Record, StateChange, Step, StepResult, emit

Handler = Callable[[BillingState, Record, int], None]


def _accounts(state: BillingState, record: Record, _: int) -> None:
    if isinstance(record.event, AccountsChanged):
        state.accounts.put(record.event)


def _price(state: BillingState, record: Record, _: int) -> None:
    if isinstance(record.event, PricePublished):
        take_price(state, record.event)


def _usage(state: BillingState, record: Record, now_ms: int) -> None:
    if isinstance(record.event, UsageMetered):
        take_usage(state, record.event, now_ms)


HANDLERS: Final[Mapping[str, Handler]] = {
    AccountsChanged.TYPE: _accounts,
    PricePublished.TYPE: _price,
    UsageMetered.TYPE: _usage,
}


class BillingStage:
    """Billing of one partition of teams as the loop runs it."""

    def __init__(
        self, partition: int, partitions: int, price_grace_ms: int, price_memory_ms: int
    ) -> None:
        self.state = BillingState()
        self._partition = partition
        self._partitions = partitions
        self._price_grace_ms = price_grace_ms
        self._price_memory_ms = price_memory_ms

    def fold(self, record: Record) -> None:
        """Take a version of an account."""
        HANDLERS[record.type](self.state, record, 0)

    def load(self, key: str, value: bytes) -> None:
        """Take back one record of the state topic."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Take prices, then usage, then settle what is due.

        Prices go first, so that usage is rated by all that lies before this barrier whatever the
        order within the step.
        """
        state = self.state
        now_ms = step.barrier.market_time_ms
        for topic in (PricePublished.TOPIC, UsageMetered.TOPIC):
            for record in step.records[topic]:
                HANDLERS[record.type](state, record, now_ms)
        if state.pending:
            retry_pending(state, sorted(state.pending), now_ms)
        outputs = [
            emit(event, partition=self._partition)
            for event in settle(state, now_ms, self._price_grace_ms, self._is_mine)
        ]
        changes = [*state.changes()]
        changes += [
            StateChange(f"{PRICE}{market}/{time_ms}", None)
            for market, time_ms in state.prices.prune(now_ms - self._price_memory_ms)
        ]
        return StepResult(outputs, changes)

    def _is_mine(self, team: str) -> bool:
        return partition_of(team, self._partitions) == self._partition
