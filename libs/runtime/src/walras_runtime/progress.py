"""How far a restore has come: a log event, and on a terminal one line that is redrawn.

Records are counted by offset: those that compaction or an aborted transaction took out of the log
count as read together with the next one that is left, so that the end is reached exactly.
"""

import sys
from collections.abc import Callable
from typing import Final, Self, TextIO

import structlog

from walras_runtime.clock import monotonic_ms

EVERY_MS: Final = 500
"""Least time between two reports on the way; a restore that takes less says nothing at all."""
BAR_CELLS: Final = 20
LINE_COLUMNS: Final = 79
"""A line that wraps cannot be redrawn."""
ERASE_LINE: Final = "\r\x1b[K"

logger = structlog.get_logger("walras")


class RestoreProgress:
    """Reports what a stage has read of what it has to read; a context manager.

    Parameters
    ----------
    stage
        Its name, such as ``clearing/0``.
    terminal
        Where the bar is drawn. None: on stderr if that is a terminal, else nowhere.
    now_ms
        A clock that never jumps, in milliseconds.
    """

    def __init__(
        self,
        stage: str,
        *,
        terminal: TextIO | None = None,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        if terminal is None and sys.stderr.isatty():
            terminal = sys.stderr
        self._stage = stage
        self._terminal = terminal
        self._now_ms = now_ms
        self._next_ms = now_ms() + EVERY_MS
        self._reported: dict[str, int] | None = None
        self._at: dict[tuple[str, int], int] = {}
        self._read: dict[str, int] = {}
        self._to_read: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._reported is None:
            return
        if error[0] is None and self._reported != self._read:
            self._report()
        if self._terminal is not None:
            self._terminal.write(ERASE_LINE)
            self._terminal.flush()

    def expect(self, topic: str, partition: int, first: int, end: int) -> None:
        """Add a partition that will be read from one offset up to, not including, another."""
        self._at[topic, partition] = first
        self._read.setdefault(topic, 0)
        self._to_read[topic] = self._to_read.get(topic, 0) + max(0, end - first)

    def passed(self, topic: str, partition: int, offset: int) -> None:
        """Note that all before an offset is read; report when it is time to."""
        known = self._at[topic, partition]
        if offset > known:
            self._at[topic, partition] = offset
            self._read[topic] += offset - known
        if self._now_ms() >= self._next_ms:
            self._report()
            self._next_ms = self._now_ms() + EVERY_MS

    def _report(self) -> None:
        self._reported = dict(self._read)
        if self._terminal is not None:
            # The event goes to the same terminal, into the place of the bar.
            self._terminal.write(ERASE_LINE)
            self._terminal.flush()
        logger.info(
            "restoring",
            stage=self._stage,
            records_read=self._reported,
            records_to_read=dict(self._to_read),
        )
        if self._terminal is not None:
            # Back at its beginning, so that whoever writes next writes over it.
            self._terminal.write(f"{self.bar()}\r")
            self._terminal.flush()

    def bar(self) -> str:
        """Return the line for a terminal."""
        read, total = sum(self._read.values()), sum(self._to_read.values())
        share = 100 if total == 0 else 100 * read // total
        full = BAR_CELLS * share // 100
        cells = "#" * full + "-" * (BAR_CELLS - full)
        line = f"[{cells}] {share:3} % {read:,} of {total:,} records: restoring {self._stage}"
        return line[:LINE_COLUMNS]
