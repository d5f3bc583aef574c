"""Keeping the cycles of a log in an archive."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from walras.archive.day_file import DayFile
from walras.archive.directory import Archive, day_of
from walras.archive.recorded_cycle import ArchiveError, RecordedCycle, gap


@dataclass
class Stored:
    """What a run kept, and what it could not keep.

    ``cut`` counts the cycles at the beginning of the log of which retention has taken a part;
    ``missing`` names others that are not whole or not there, as market, cycle and reason.
    """

    cycles: dict[str, int] = field(default_factory=dict)
    first_cycle: int | None = None
    last_cycle: int | None = None
    events_added: int = 0
    events_known: int = 0
    files_written: int = 0
    cut: int = 0
    missing: list[tuple[str, int, str]] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return it for ``--json``."""
        return {
            "cycles": dict(sorted(self.cycles.items())),
            "first_cycle": self.first_cycle,
            "last_cycle": self.last_cycle,
            "events_added": self.events_added,
            "events_known": self.events_known,
            "files_written": self.files_written,
            "cut_by_retention": self.cut,
            "missing": [
                {"market": market, "cycle": cycle, "reason": reason}
                for market, cycle, reason in self.missing
            ],
        }


@dataclass(frozen=True, slots=True)
class _Day:
    """The file of a day that is being written, and the cycles that it can have."""

    name: str
    room: range
    file: DayFile


class _Store:
    def __init__(self, archive: Archive, within: range) -> None:
        self.archive = archive
        self.within = within
        self.stored = Stored()
        self.open: dict[str, _Day] = {}
        self.next_cycle: dict[str, int] = {}

    def take(self, cycle: RecordedCycle) -> None:
        """Store a cycle of the log if it is one to keep, and name what is missing before it."""
        market, within = cycle.market, self.within
        missing = gap(market, self.next_cycle.get(market, cycle.cycle), cycle.cycle)
        if missing is not None and missing.cycle < within.stop and cycle.cycle > within.start:
            self.stored.missing.append((market, missing.cycle, missing.reason))
        self.next_cycle[market] = cycle.cycle + 1
        if cycle.cycle in within:
            self._add(cycle)

    def _add(self, cycle: RecordedCycle) -> None:
        stored, market = self.stored, cycle.market
        if reason := cycle.fault():
            if cycle.oldest:
                stored.cut += 1
            else:
                stored.missing.append((market, cycle.cycle, reason))
            return
        day = self._day(market, day_of(cycle.whole().market_time_ms))
        if cycle.cycle not in day.room:
            raise ArchiveError(
                f"{day.file.path}: market {market}, cycle {cycle.cycle} is not between those of "
                "the days before and after: an archive is of one log; choose another directory"
            )
        day.file.add(cycle.events())
        stored.cycles[market] = stored.cycles.get(market, 0) + 1
        lowest = stored.first_cycle
        stored.first_cycle = cycle.cycle if lowest is None else min(lowest, cycle.cycle)
        stored.last_cycle = max(stored.last_cycle or 0, cycle.cycle)

    def close(self) -> None:
        for market in sorted(self.open):
            self._finish(market)

    def abandon(self) -> None:
        for day in self.open.values():
            day.file.abandon()

    def _day(self, market: str, name: str) -> _Day:
        known = self.open.get(market)
        if known is not None and known.name == name:
            return known
        if known is not None:
            self._finish(market)
        room = self.archive.room(market, name)
        self.open[market] = _Day(name, room, DayFile(self.archive.path(market, name)))
        return self.open[market]

    def _finish(self, market: str) -> None:
        file = self.open.pop(market).file
        try:
            file.close()
        finally:
            file.abandon()
        self.stored.events_added += file.added
        self.stored.events_known += file.known
        self.stored.files_written += file.added > 0


def store(cycles: Iterable[RecordedCycle], archive: Archive, within: range) -> Stored:
    """Merge cycles into an archive; what is there already stays as it is.

    Parameters
    ----------
    cycles
        Those of a log, of each market in the order of their numbers.
    archive
        Where to; it is locked meanwhile.
    within
        Cycle numbers to keep.

    Raises
    ------
    ArchiveError
        The source cannot be read, or the archive holds the cycles of another log. The files of
        the days that were finished before are kept, the others are as they were.
    """
    with archive.locked():
        run = _Store(archive, within)
        try:
            for cycle in cycles:
                run.take(cycle)
            run.close()
        finally:
            run.abandon()
        return run.stored
