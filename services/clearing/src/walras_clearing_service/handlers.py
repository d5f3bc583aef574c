"""What each event type does to the state: one dictionary."""

from collections.abc import Callable
from typing import Final, TypeVar

from walras_clearing_service.state import ClearingState
from walras_contracts.accounts import AccountsChanged
from walras_contracts.capacity import SupplyPublished
from walras_contracts.demand import JobQueued
from walras_contracts.event import Event
from walras_contracts.money import BalancePublished, BudgetPublished
from walras_contracts.work import JobStatusChanged
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import Record

E = TypeVar("E", bound=Event)
Fold = Callable[[ClearingState, Record], None]


def _queued(state: ClearingState, record: Record) -> None:
    state.jobs.put_job(record.key, _event(JobQueued, record))


def _status(state: ClearingState, record: Record) -> None:
    state.jobs.put_status(record.key, _event(JobStatusChanged, record))


def _supply(state: ClearingState, record: Record) -> None:
    supply = _event(SupplyPublished, record)
    if supply is None:
        state.supply.pop(record.key, None)
    else:
        state.supply[record.key] = supply


def _accounts(state: ClearingState, record: Record) -> None:
    change = _event(AccountsChanged, record)
    if change is None:
        raise InvariantBrokenError(f"accounts: {record.key} has a tombstone; documents never end")
    state.accounts.put(change)


def _balance(state: ClearingState, record: Record) -> None:
    balance = _event(BalancePublished, record)
    state.teams.put_wallet(record.key, balance.wallet_micro if balance is not None else None)


def _budget(state: ClearingState, record: Record) -> None:
    budget = _event(BudgetPublished, record)
    state.teams.put_budget(record.key, budget.exhausted if budget is not None else None)


def _event(event_class: type[E], record: Record) -> E | None:
    """Return the decoded event, or None for a tombstone."""
    event = record.event
    if event is None or isinstance(event, event_class):
        return event
    raise InvariantBrokenError(
        f"{record.topic}/{record.partition}@{record.offset}: {record.type} was decoded as "
        f"{type(event).__name__}"
    )


FOLDS: Final[dict[str, Fold]] = {
    JobQueued.TYPE: _queued,
    JobStatusChanged.TYPE: _status,
    SupplyPublished.TYPE: _supply,
    AccountsChanged.TYPE: _accounts,
    BalancePublished.TYPE: _balance,
    BudgetPublished.TYPE: _budget,
}
