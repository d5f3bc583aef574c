"""Follows the committed log of the market while the story is told."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from walras.jobs_log.items import Item, Log, Watch
from walras.jobs_log.kafka_log import open_log
from walras_contracts.capacity import NodeHealthReported, SupplyPublished
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.demand import DemandRejected
from walras_contracts.drains import VacateRequested
from walras_contracts.event import Event
from walras_contracts.market import PricePublished
from walras_contracts.work import (
    DrainStatusChanged,
    JobStatusChanged,
    LeaseGranted,
    LeaseStatusChanged,
    UsageMetered,
)

MODELS: Final[tuple[type[Event], ...]] = (
    *(PricePublished, SupplyPublished, NodeHealthReported, DemandRejected, JobStatusChanged),
    *(LeaseGranted, LeaseStatusChanged, VacateRequested, DrainStatusChanged, UsageMetered),
    *(ChargeRated, ChargeCredited),
)
"""What is followed, and what the facts are read from."""
PATIENCE_S: Final = 120.0
"""So long the story waits for its next turn; several times what a slow machine needs."""

E = TypeVar("E", bound=Event)
T = TypeVar("T")


class StoryStalledError(RuntimeError):
    """What the story waits for does not come."""

    code = "story_stalled"
    retriable = True


class MarketWatch:
    """What the log shows so far. Use :func:`watched`.

    Parameters
    ----------
    log
        The log; nothing of it was read yet.
    look
        Called several times a second; it raises where the run is broken.
    happened
        Called with every event, in the order in which they come.
    """

    def __init__(
        self, log: Log, look: Callable[[], None], happened: Callable[[Event], None]
    ) -> None:
        self._items = log.follow([Watch(*each) for each in topics_of(MODELS)])
        self._look = look
        self._happened = happened
        self._events: dict[type[Event], list[Event]] = {}
        self._barriers: dict[tuple[str, int], int] = {}

    def of(self, model: type[E]) -> list[E]:
        """Return the events of a type, as they came."""
        return [each for each in self._events.get(model, ()) if isinstance(each, model)]

    def barrier_ms(self, topic: str, partitions: int) -> int:
        """Return the market time up to which all partitions of a topic show barriers; 0: none."""
        return min(self._barriers.get((topic, partition), 0) for partition in range(partitions))

    def until(self, found: Callable[[], T | None], what: str, within_s: float = PATIENCE_S) -> T:
        """Follow the log until ``found`` finds something; return that.

        Raises
        ------
        StoryStalledError
            It did not come.
        """
        deadline_s = time.monotonic() + within_s
        while True:
            answer = found()
            if answer is not None:
                return answer
            if time.monotonic() > deadline_s:
                raise StoryStalledError(
                    f"in {within_s:.0f} s this did not come: {what}; look into the logs of the "
                    "services and agents, or try again while the machine is less busy"
                )
            self._look()
            item = next(self._items)
            if item is not None:
                self._take(item)

    def close(self) -> None:
        """Stop to follow."""
        self._items.close()

    def _take(self, item: Item) -> None:
        if item.barrier is not None:
            place = (item.topic, item.partition)
            self._barriers[place] = item.barrier.market_time_ms
        elif item.event is not None:
            self._events.setdefault(type(item.event), []).append(item.event)
            self._happened(item.event)


@contextmanager
def watched(
    bootstrap: str, look: Callable[[], None], happened: Callable[[Event], None]
) -> Iterator[MarketWatch]:
    """Follow a log that nothing was written to yet."""
    with open_log(bootstrap, [topic for topic, _ in topics_of(MODELS)]) as log:
        watch = MarketWatch(log, look, happened)
        try:
            yield watch
        finally:
            watch.close()


def topics_of(models: tuple[type[Event], ...]) -> list[tuple[str, tuple[type[Event], ...]]]:
    """Return event types by the topics that they are on."""
    found: dict[str, tuple[type[Event], ...]] = {}
    for model in models:
        found[model.TOPIC] = (*found.get(model.TOPIC, ()), model)
    return list(found.items())
