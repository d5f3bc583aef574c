"""The stage: one table from event type to what is done with it."""

from collections.abc import Callable, Mapping
from typing import Final

from walras_contracts.accounts import AccountsChanged
from walras_contracts.capacity import NodePublished
from walras_contracts.demand import JobQueued
from walras_contracts.market import QuotaGranted
from walras_contracts.money import BudgetPublished
from walras_contracts.work import LeaseStatusChanged
from walras_placement.core import Writer, carry_out, note_lease_status, reconcile
from walras_placement.plan import plan
from walras_placement.state import PlacementState
from walras_runtime.records import Record, Step, StepResult

Handler = Callable[[PlacementState, Record, Writer | None], None]


def _accounts(state: PlacementState, record: Record, _: Writer | None) -> None:
    if isinstance(record.event, AccountsChanged):
        state.retention.put(record.event)


def _node(state: PlacementState, record: Record, _: Writer | None) -> None:
    event = record.event
    assert event is None or isinstance(event, NodePublished)
    state.devices.put(record.key, event)


def _quota(state: PlacementState, record: Record, _: Writer | None) -> None:
    if isinstance(record.event, QuotaGranted):
        state.quotas[record.key] = {quota.market: quota for quota in record.event.markets}
    else:
        state.quotas.pop(record.key, None)


def _queued(state: PlacementState, record: Record, _: Writer | None) -> None:
    if isinstance(record.event, JobQueued):
        state.queue[record.key] = record.event
    else:
        state.queue.pop(record.key, None)
    state.touched[record.key] = None


def _budget(state: PlacementState, record: Record, _: Writer | None) -> None:
    event = record.event
    assert event is None or isinstance(event, BudgetPublished)
    state.exhausted.put(record.key, event)


def _lease_status(state: PlacementState, record: Record, writer: Writer | None) -> None:
    # The agent's tombstone says that it forgot a freed part, as placement has.
    if writer is not None and isinstance(record.event, LeaseStatusChanged):
        note_lease_status(state, writer, record.event)


HANDLERS: Final[Mapping[str, Handler]] = {
    AccountsChanged.TYPE: _accounts,
    NodePublished.TYPE: _node,
    QuotaGranted.TYPE: _quota,
    JobQueued.TYPE: _queued,
    LeaseStatusChanged.TYPE: _lease_status,
    BudgetPublished.TYPE: _budget,
}


class PlacementStage:
    """Placement as the loop runs it.

    Parameters
    ----------
    budget_grace_ms
        How long what runs for money stays after its team was told to be exhausted.
    """

    def __init__(self, budget_grace_ms: int) -> None:
        self.state = PlacementState()
        self._budget_grace_ms = budget_grace_ms

    def fold(self, record: Record) -> None:
        """Take a record of a table: accounts, nodes, quotas, queue, budgets."""
        HANDLERS[record.type](self.state, record, None)

    def load(self, key: str, value: bytes) -> None:
        """Take back one own record."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Take what agents freed, follow the queue, then decide who runs where."""
        state = self.state
        writer = Writer(step.barrier.market_time_ms)
        told = state.exhausted.begin(writer.now_ms)
        for record in step.records[LeaseStatusChanged.TOPIC]:
            HANDLERS[record.type](state, record, writer)
        for key in sorted(state.touched):
            reconcile(state, writer, key)
        state.touched.clear()
        carry_out(state, writer, plan(state, writer.now_ms, self._budget_grace_ms))
        state.devices.check()
        result = writer.result(state)
        return StepResult(result.outputs, [*told, *result.state])
