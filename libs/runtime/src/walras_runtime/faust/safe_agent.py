"""An agent that never raises: in Faust a record whose agent raised is acknowledged and lost.

Worse, the default supervisor restarts the agent and goes on, so that the loss shows nowhere. Here
everything that a record can do wrong is counted, and for all else the process crashes.
"""

from collections import Counter
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import faust
import structlog
from mode.supervisors import CrashingSupervisor

from walras_contracts.registry import (
    BY_TYPE,
    UndecodableError,
    UnknownVersionError,
    decode_inner,
)
from walras_runtime.kafka.wire import BarrierMark, parse_message
from walras_runtime.records import Record

Fold = Callable[[Record], None]
logger = structlog.get_logger("walras")


class Fate(StrEnum):
    """What became of a record."""

    FOLDED = "folded"
    BARRIER = "barrier"
    TOMBSTONE = "tombstone"
    NOT_WANTED = "not_wanted"
    """Of a known type that the view does not show; not even decoded."""
    UNDECODABLE = "undecodable"
    UNKNOWN_VERSION = "unknown_event_version"
    FAILED = "fold_failed"


FAULTS = (Fate.UNDECODABLE, Fate.UNKNOWN_VERSION, Fate.FAILED)


@dataclass(slots=True)
class Tally:
    """How many records of each topic met which fate."""

    counts: Counter[tuple[str, Fate]] = field(default_factory=Counter)

    def faults(self) -> dict[str, int]:
        """Return the counts that should be zero, as ``topic: fate``."""
        return {
            f"{topic}: {fate.value}": count
            for (topic, fate), count in sorted(self.counts.items())
            if fate in FAULTS
        }

    def of(self, fate: Fate) -> int:
        """Return how many records met a fate, over all topics."""
        return sum(count for (_, found), count in self.counts.items() if found == fate)


def handle(
    message: Any,
    topic: str,
    fold: Fold,
    wanted: frozenset[str],
) -> Fate:
    """Fold one consumed message of the topic with short name ``topic``; never raise.

    Parameters
    ----------
    message
        A message with key, value, headers, partition, offset and timestamp.
    topic
        Short name of its topic.
    fold
        Takes the decoded record; must overwrite, not add: a record may come twice.
    wanted
        Types of the events that it takes.
    """
    try:
        item = parse_message(message, topic)
        passed_over = _passed_over(item, wanted)
        if passed_over is None and isinstance(item, Record):
            event = decode_inner(item.type, item.value or b"")
            fold(replace(item, event=event))
    except UnknownVersionError:
        return Fate.UNKNOWN_VERSION
    except UndecodableError:
        return Fate.UNDECODABLE
    except Exception:
        # A raising agent would lose the record without a trace: it is counted and logged instead.
        logger.exception("fold_failed", topic=topic, offset=getattr(message, "offset", None))
        return Fate.FAILED
    return passed_over or Fate.FOLDED


def _passed_over(item: Record | BarrierMark, wanted: frozenset[str]) -> Fate | None:
    if isinstance(item, BarrierMark):
        return Fate.BARRIER
    if item.value is None:
        return Fate.TOMBSTONE
    # A type that this build does not know is not passed over: its version may be newer.
    return Fate.NOT_WANTED if item.type in BY_TYPE and item.type not in wanted else None


def safe_agent(
    app: faust.App,
    topic: str,
    full_name: str,
    fold: Fold,
    *,
    wanted: frozenset[str],
    tally: Tally,
) -> None:
    """Add an agent that folds a topic's events; barriers and tombstones are passed over.

    Parameters
    ----------
    app
        The app that runs it.
    topic, full_name
        Short name of the topic and its name on the broker; it exists already.
    fold, wanted
        As for :func:`handle`.
    tally
        Where the fates are counted.
    """
    channel = app.topic(
        full_name,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        allow_empty=True,
        internal=False,
    )

    async def agent(stream: AsyncIterable[Any]) -> None:
        async for event in stream.events():  # type: ignore[attr-defined]
            fate = handle(event.message, topic, fold, wanted)
            tally.counts[topic, fate] += 1

    app.agent(channel, name=f"{topic}-fold", supervisor_strategy=CrashingSupervisor)(agent)
