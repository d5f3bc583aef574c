"""The layout of an archive, ``MARKET/YYYY-MM-DD.parquet``, and reading it in order."""

import fcntl
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Final

from walras.archive.day_file import SUFFIX, cycle_span, key_cycles, read_events, row_count
from walras.archive.recorded_cycle import ArchiveError, RecordedCycle, RecordedEvent, grouped
from walras_contracts.quantities import NUMBER_MAX

DAY_MS: Final = 86_400_000
EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
LOCK_NAME: Final = ".lock"
EVERY_CYCLE: Final = range(NUMBER_MAX + 1)

Progress = Callable[[int, int], None]
"""Told how much is done, of how much; the unit is the source's."""


def day_of(market_time_ms: int) -> str:
    """Return the day, in UTC, of a market time."""
    return date.fromordinal(EPOCH_DAY + market_time_ms // DAY_MS).isoformat()


class Archive:
    """A directory of stored cycles, one file a market and day."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, market: str, day: str) -> Path:
        """Return where the cycles of a market on a day are."""
        return self.root / market / f"{day}{SUFFIX}"

    def markets(self) -> list[str]:
        """Return the markets that have a file, by id.

        Raises
        ------
        ArchiveError
            The directory is not there, or cannot be read.
        """
        try:
            return sorted({path.parent.name for path in self.root.glob(f"*/*{SUFFIX}")})
        except OSError as error:
            raise ArchiveError(f"{self.root}: {error.strerror}") from error

    def files(self, market: str) -> list[Path]:
        """Return the files of a market by day."""
        return sorted((self.root / market).glob(f"*{SUFFIX}"))

    def room(self, market: str, day: str) -> range:
        """Return the cycles that a day can have: those between the days before and after it."""
        before, after = range(0), range(NUMBER_MAX + 1, NUMBER_MAX + 1)
        for path in self.files(market):
            if path.stem < day:
                before = cycle_span(path) or before
            elif path.stem > day and not after:
                after = cycle_span(path) or after
        return range(before.stop, after.start)

    def cycles(
        self, markets: Collection[str], progress: Progress, within: range = EVERY_CYCLE
    ) -> Iterator[RecordedCycle]:
        """Yield stored cycles, market by market, in the order of their numbers.

        Parameters
        ----------
        markets
            Those to read.
        progress
            Told how many events were read, of how many.
        within
            What is yielded are these cycles, the earlier ones since a key frame at least, and the
            one after the last: the days of others are not read.

        Raises
        ------
        ArchiveError
            A file is not one of an archive, or holds the cycles of another market.
        """
        files = {m: _needed(self.files(m), within) for m in sorted(markets)}
        counts = {m: sum(map(row_count, paths)) for m, paths in files.items()}
        total, before = sum(counts.values()), 0
        progress(before, total)
        for market, paths in files.items():
            events = chain.from_iterable(_events_of(path, market) for path in paths)
            done = before
            for cycle in grouped(events):
                if cycle.cycle > within.stop:
                    break
                yield cycle
                done += len(cycle.events())
                progress(done, total)
            before += counts[market]
            progress(before, total)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the archive for writing; the lock ends with the process, whatever happens.

        Raises
        ------
        ArchiveError
            Somebody else writes, or the directory cannot be made.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            file = (self.root / LOCK_NAME).open("w")
        except OSError as error:
            raise ArchiveError(f"{self.root}: {error.strerror}") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ArchiveError(f"{self.root}: another process writes to it") from error
            yield


def _needed(paths: list[Path], within: range) -> list[Path]:
    """Leave out the days before the last key frame that is not behind the cycles, and later days.

    Of those, the one with the cycle after the last is needed: it says how long that one lasted.
    """
    first = len(paths) - 1
    while first > 0 and not any(cycle <= within.start for cycle in key_cycles(paths[first])):
        first -= 1
    last = len(paths)
    while last > first + 1 and cycle_span(paths[last - 1]).start > within.stop:
        last -= 1
    return paths[max(first, 0) : last]


def _events_of(path: Path, market: str) -> Iterator[RecordedEvent]:
    for event in read_events(path):
        if event.market != market:
            raise ArchiveError(f"{path}: holds a cycle of market {event.market}")
        yield event
