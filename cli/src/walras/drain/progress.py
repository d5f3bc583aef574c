"""Follows what was asked for until it has ended, and says how far it is at least every 10 s."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from walras.billing_log.window import moment
from walras.jobs_log.items import Item, Log, Watch
from walras_runtime.clock import monotonic_ms

REPEAT_AFTER_MS: Final = 9_000
"""Looked at several times a second: so nobody waits longer than 10 s for a word."""
SILENT_AFTER_MS: Final = 30_000
"""After so long without any record, barriers among them, nobody seems to be at work."""


class Outcome(StrEnum):
    """How it ended."""

    DONE = "done"
    OTHERWISE = "otherwise"
    """It ended, but not as it was asked for."""
    NOT_KNOWN = "not_known"
    """It goes on; nobody waits any longer."""
    WRITTEN = "written"
    """Nobody waited."""


@dataclass(frozen=True, slots=True)
class End:
    """How it ended, in words."""

    outcome: Outcome
    words: str


class Watcher(Protocol):
    """Takes records, and knows how far it is."""

    def take(self, item: Item) -> None:
        """Take the next record."""

    def words(self) -> str:
        """Say how far it is, naming blockers."""

    def end(self) -> End | None:
        """Return how it ended; None: it goes on."""


def follow(
    log: Log,
    watches: Sequence[Watch],
    watcher: Watcher,
    tell: Callable[[str], None],
    *,
    timeout_ms: int | None,
    clock: Callable[[], int] = monotonic_ms,
) -> End:
    """Follow until it has ended, or the time is over.

    Parameters
    ----------
    log
        What is followed.
    watches
        Which parts of it.
    watcher
        Takes the records.
    tell
        Told each change, and the same again where nothing changes for long.
    timeout_ms
        How long; None: without an end.
    clock
        Milliseconds that never jump.

    Raises
    ------
    JobsLogError
        The log cannot be read.
    """
    start_ms = told_ms = heard_ms = clock()
    at = ""
    said = watcher.words()
    tell(said)
    with closing(log.follow(watches)) as items:
        for item in items:
            now_ms = clock()
            if item is not None:
                heard_ms = now_ms
                watcher.take(item)
                if item.barrier is not None:
                    at = f"{moment(item.barrier.market_time_ms)}  "
            words = watcher.words()
            if words != said or now_ms - told_ms >= REPEAT_AFTER_MS:
                silent = now_ms - heard_ms >= SILENT_AFTER_MS
                note = "; nothing is written any more: do the services run?" if silent else ""
                tell(f"{at}{words}{note}")
                said, told_ms = words, now_ms
            end = watcher.end()
            if end is not None:
                return end
            if timeout_ms is not None and now_ms - start_ms >= timeout_ms:
                break
    waited_s = (clock() - start_ms) // 1000
    return End(Outcome.NOT_KNOWN, f"not ended within {waited_s} s, it goes on: {said}")
