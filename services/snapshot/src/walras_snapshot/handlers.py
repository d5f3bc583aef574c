"""What each kind of record does to the state."""

from collections.abc import Callable
from typing import Final

from walras_contracts.accounts import AccountsChanged, PoolDocument
from walras_contracts.capacity import SupplyPublished
from walras_contracts.market import QuotaGranted
from walras_runtime.records import Record
from walras_snapshot.state import SnapshotState


def on_quota(state: SnapshotState, record: Record) -> None:
    """Keep a team's quota; a tombstone ends it."""
    if isinstance(record.event, QuotaGranted):
        state.quotas[record.event.team] = record.event
    else:
        state.quotas.pop(record.key, None)


def on_supply(state: SnapshotState, record: Record) -> None:
    """Keep a market's supply; a tombstone ends it."""
    if isinstance(record.event, SupplyPublished):
        state.supplies[record.event.market] = record.event
    else:
        state.supplies.pop(record.key, None)


def on_accounts(state: SnapshotState, record: Record) -> None:
    """Keep a pool's document until a later one is in effect; other documents do not matter here."""
    change = record.event
    if not isinstance(change, AccountsChanged) or not isinstance(change.document, PoolDocument):
        return
    versions = state.pools.setdefault(change.document.pool, [])
    kept = [held for held in versions if held.version < change.version]
    versions[:] = [*kept, change]


HANDLERS: Final[dict[str, Callable[[SnapshotState, Record], None]]] = {
    QuotaGranted.TYPE: on_quota,
    SupplyPublished.TYPE: on_supply,
    AccountsChanged.TYPE: on_accounts,
}
