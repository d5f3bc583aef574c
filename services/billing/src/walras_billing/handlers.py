"""The stage: one table from topic to what is done with a step's records of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from walras_billing.core import Rules, Work, forget_old, rate_usage, take_price, take_usage
from walras_billing.settlement import settle
from walras_billing.state import BillingState
from walras_contracts.accounts import AccountsChanged
from walras_contracts.identifiers import partition_of
from walras_contracts.market import PricePublished
from walras_contracts.work import UsageMetered
from walras_runtime.records import Record, Step, StepResult, emit

Handler = Callable[[Work, Sequence[Record]], None]


def _prices(work: Work, records: Sequence[Record]) -> None:
    for record in records:
        if isinstance(record.event, PricePublished):
            take_price(work, record.event)


HANDLERS: Final[Mapping[str, Handler]] = {
    PricePublished.TOPIC: _prices,
    UsageMetered.TOPIC: take_usage,
}
"""In the order in which they are called: prices first, so that usage is rated by all that lies
before this barrier whatever the order within the step."""


class BillingStage:
    """Billing of one partition of teams as the loop runs it."""

    def __init__(self, partition: int, partitions: int, rules: Rules) -> None:
        self.state = BillingState()
        self._partition = partition
        self._partitions = partitions
        self._rules = rules

    def fold(self, record: Record) -> None:
        """Take a version of an account."""
        if isinstance(record.event, AccountsChanged):
            self.state.accounts.put(record.event)

    def load(self, key: str, value: bytes) -> None:
        """Take back one record of the state topic."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Take prices and usage, rate what is due, settle what is due, forget what is old."""
        state = self.state
        state.resume()
        work = Work(state, self._rules, self._partition, step.barrier)
        for topic, handle in HANDLERS.items():
            handle(work, step.records[topic])
        rate_usage(work)
        forget_old(work)
        for event in settle(state, work.now_ms, self._rules.price_grace_ms, self._is_mine):
            work.outputs.append(emit(event, partition=self._partition))
        state.clock_ms = work.now_ms
        return StepResult(work.outputs, [*state.changes()])

    def _is_mine(self, team: str) -> bool:
        return partition_of(team, self._partitions) == self._partition
