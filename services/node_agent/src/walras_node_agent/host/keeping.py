"""Keeping what was decided: in the journal first, then in the spool, then it may be done."""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from walras_node_agent.agent.node import Node, Turn
from walras_node_agent.agent.recovery import (
    Entry,
    Start,
    acknowledged_entry,
    seen_entry,
    start_entry,
    turn_entry,
    whole,
)
from walras_node_agent.host.journal import Journal, JournalFullError
from walras_node_agent.host.spool import Spool
from walras_node_agent.part_life import Deed
from walras_node_agent.part_table import Effect

JOURNAL_BYTES: Final = 4 << 20
"""A journal that is longer, and twice as long as after it was last shortened, is shortened."""
logger = structlog.get_logger("walras")


class Keeping:
    """The journal and the spool of one agent.

    Parameters
    ----------
    node
        Whose decisions are kept.
    journal, spool
        Where.
    start
        What this process began with.
    seen
        The newest barrier of each topic that was read.
    """

    def __init__(
        self, node: Node, journal: Journal, spool: Spool, start: Start, seen: Mapping[str, int]
    ) -> None:
        self.spool = spool
        self.seen = dict(seen)
        self.fresh = asyncio.Event()
        """Set when there is something for the log."""
        self._node = node
        self._journal = journal
        self._start = start
        self._unkept = Turn()
        """What the journal had no room for."""
        self._seen_kept = dict(seen)
        self._shortened = journal.size
        # Without room for it, this process goes on from what the last one began with.
        self._append(start_entry(start.boot, start.offset_ms))

    @property
    def disk_full(self) -> bool:
        """Whether there is room for what ends only."""
        return self._journal.full

    @property
    def strained(self) -> bool:
        """Whether what can wait should."""
        return self.spool.full or self._journal.full

    def keep(self, turn: Turn) -> list[tuple[str, Deed]]:
        """Keep a turn; return what may be done now."""
        unkept = self._unkept
        unkept.events += turn.events
        unkept.changed |= turn.changed
        unkept.commands_changed |= turn.commands_changed
        unkept.deeds += turn.deeds
        entry = turn_entry(self._node, unkept, self.spool.next_number)
        if entry is not None and self._seen_kept != self.seen:
            entry |= seen_entry(self.seen)
        if entry is None or self._append(entry):
            self._unkept = Turn()
            self._seen_kept = dict(self.seen)
            self.spool.put(unkept.events)
            if unkept.events:
                self.fresh.set()
            return unkept.deeds
        # Nothing is begun that a crash would not remember; what has to end, ends.
        starts = [each for each in unkept.deeds if each[1] is Effect.START]
        others = [each for each in unkept.deeds if each[1] is not Effect.START]
        unkept.deeds = starts
        return others

    def note_seen(self, barriers: Mapping[str, int]) -> None:
        """Note the newest barriers of the log; they are kept with the next turn."""
        self.seen.update(barriers)

    def acknowledged(self, below: int) -> None:
        """Note that the log has all events below a number."""
        self.spool.acknowledge(below)
        self._append(acknowledged_entry(below))

    def shorten(self) -> None:
        """Write all that is known into the place of a journal that has become long."""
        if self._journal.size <= max(JOURNAL_BYTES, 2 * self._shortened) or self._unkept.changed:
            return
        events = self.spool.everything()
        number = self.spool.next_number
        self._journal.replace(whole(self._node, self._start, events, number, self.seen))
        self._shortened = self._journal.size

    def _append(self, entry: Entry) -> bool:
        try:
            self._journal.append([entry])
        except JournalFullError as error:
            logger.error("journal_full", why=str(error))
            return False
        return True
