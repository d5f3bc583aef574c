"""What each kind of event does to the tables; other events are passed over."""

from collections.abc import Callable
from typing import Final

from walras_contracts.event import Event
from walras_contracts.market import CycleSummarised, PricePublished, QuotaGranted
from walras_contracts.money import BalancePublished
from walras_runtime.records import Record
from walras_views.core import keep_cycle, keep_price, keep_quota, keep_wallet
from walras_views.state import Tables


def on_cycle(tables: Tables, event: Event) -> None:
    """Keep a cycle's summary."""
    if isinstance(event, CycleSummarised):
        keep_cycle(tables, event)


def on_price(tables: Tables, event: Event) -> None:
    """Keep a market's prices."""
    if isinstance(event, PricePublished):
        keep_price(tables, event)


def on_balance(tables: Tables, event: Event) -> None:
    """Keep a team's wallet."""
    if isinstance(event, BalancePublished):
        keep_wallet(tables, event)


def on_quota(tables: Tables, event: Event) -> None:
    """Keep a team's quota."""
    if isinstance(event, QuotaGranted):
        keep_quota(tables, event)


HANDLERS: Final[dict[str, Callable[[Tables, Event], None]]] = {
    CycleSummarised.TYPE: on_cycle,
    PricePublished.TYPE: on_price,
    BalancePublished.TYPE: on_balance,
    QuotaGranted.TYPE: on_quota,
}


def fold(tables: Tables, record: Record) -> None:
    """Fold one decoded record; the same record again changes nothing."""
    handler = HANDLERS.get(record.type)
    if handler is not None and record.event is not None:
        handler(tables, record.event)
