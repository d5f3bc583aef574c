"""Folds over what was read: the latest of each key, the last barrier, market time."""

from collections.abc import Iterable
from typing import TypeVar

from walras.jobs_log.items import Item, Log
from walras_contracts.event import Event
from walras_runtime.clock import wall_ms
from walras_runtime.records import Barrier

E = TypeVar("E", bound=Event)


def latest(log: Log, model: type[E], partition_key: str | None = None) -> dict[str, E]:
    """Return the last event of each key of a model's topic, without what a tombstone ended.

    Raises
    ------
    JobsLogError
        The log cannot be read.
    """
    return latest_of(log.read(model.TOPIC, model, partition_key=partition_key), model)


def latest_of(items: Iterable[Item], model: type[E]) -> dict[str, E]:
    """Return the last event of each key, without what a tombstone ended."""
    found: dict[str, E] = {}
    for item in items:
        if isinstance(item.event, model):
            found[item.key] = item.event
        elif item.is_tombstone:
            found.pop(item.key, None)
    return found


def last_barrier(log: Log, topic: str, partition_key: str) -> Barrier | None:
    """Return the last barrier of the partition of a key; None before the first.

    Raises
    ------
    JobsLogError
        The log cannot be read.
    """
    for stretch in log.backwards(topic, partition_key=partition_key):
        for item in reversed(stretch):
            if item.barrier is not None:
                return item.barrier
    return None


def market_now_ms(log: Log, topic: str, partition_key: str) -> int:
    """Return the market time of what is written to a topic now.

    It is that of the last barrier, so an event never lies before what its writer has seen, in a
    replay either. In a log without a barrier it is the wall clock's.

    Raises
    ------
    JobsLogError
        The log cannot be read.
    """
    barrier = last_barrier(log, topic, partition_key)
    return wall_ms() if barrier is None else barrier.market_time_ms
