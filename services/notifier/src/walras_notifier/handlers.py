"""What each kind of record does: a notice is taken, and goes to whoever asked for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from walras_contracts.drains import NotificationIssued
from walras_notifier.core import Clocks, limit_ms, on_monotonic
from walras_notifier.dispatching import Dispatcher
from walras_runtime.records import Record


@dataclass(frozen=True, slots=True)
class Moment:
    """When a record is taken: the clocks, and the broker's stamp of it (wall clock, ms)."""

    clocks: Clocks
    stamp_ms: int
    mode: Literal["live", "replay"]
    give_up_after_ms: int


def on_notification(dispatcher: Dispatcher, record: Record, moment: Moment) -> None:
    """Take a notice; a tombstone says nothing."""
    notice = record.event
    if not isinstance(notice, NotificationIssued):
        return
    limit = on_monotonic(
        limit_ms(notice, moment.give_up_after_ms),
        notice.issued_ms,
        moment.stamp_ms,
        moment.clocks,
        moment.mode,
    )
    now_ms = moment.clocks.monotonic_ms
    dispatcher.take(record.partition, record.offset, notice, limit, now_ms)


HANDLERS: Final[dict[str, Callable[[Dispatcher, Record, Moment], None]]] = {
    NotificationIssued.TYPE: on_notification,
}
