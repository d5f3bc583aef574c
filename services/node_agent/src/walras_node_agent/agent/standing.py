"""Whether what the log grants may be started: only where it is sure that the grant stands.

A node that is silent for the lease timeout is lost: the runs of its leases are given up and go on
elsewhere, and their records are written again as such that must not start. An agent that comes back
from a silence may read a grant before it reads that. So it starts nothing before it has read

1. everything, beginning behind the moment at which the log had a report of it again: then the
   newest barrier m of what the ticker writes is known. One more may have been written before the
   report and not be visible yet, so the report lies in step m + 2 or before;
2. barrier m + 2 of the leases: all that was given up before it was heard lies before that. Where
   there is no barrier yet, no node can have been silent for long.

From then on it stands as long as it is heard often enough: it cannot have been given up.

This rests on placement seeing ``nodes`` and ``leases`` of a step together. Live, a placement that
went on without late ``nodes`` may give up later than step m + 2; what runs twice then is told apart
by the attempt number of the checkpoint directory.
"""

from typing import Final

NOT_READ: Final = -1
BEHIND: Final = 2
"""A report is in so many steps behind the newest barrier that is visible then, at the latest."""


class NodeStanding:
    """What an agent knows of how others see its node; times in ms since boot.

    Parameters
    ----------
    within_ms
        A longer silence is one after which its leases may have been given up. Less than the
        platform's lease timeout.
    """

    def __init__(self, within_ms: int) -> None:
        self._within_ms = within_ms
        self._heard_ms: int | None = None
        """When the newest report was made that the log has."""
        self._lapses = 0
        """Silences so far that were over with a report; the first one is the start."""
        self._table_of = 0
        """Behind which of them the table was read."""
        self._wanted = NOT_READ
        """The barrier of the leases that has to be read."""
        self._read = NOT_READ
        """The newest barrier of the leases since the table."""

    @property
    def wants_table(self) -> bool:
        """Whether the log has to be read again from its beginning."""
        return self._table_of != self._lapses

    def heard(self, made_ms: int, now_ms: int) -> None:
        """Note that the log has a report that was made then."""
        if self._is_silent(now_ms):
            self._lapses += 1
        self._heard_ms = made_ms

    def began_to_read(self) -> int:
        """Return what to hand to :meth:`read_table` of a reading that begins now."""
        return self._lapses

    def read_table(self, began: int, barrier: int) -> None:
        """Note that all was read, and the newest barrier of what the ticker writes; -1: none."""
        if began == self._lapses and self.wants_table:
            self._table_of, self._read = began, NOT_READ
            self._wanted = NOT_READ if barrier == NOT_READ else barrier + BEHIND

    def read_leases(self, barrier: int) -> None:
        """Note that the leases were read up to a barrier."""
        self._read = max(self._read, barrier)

    def stands(self, now_ms: int) -> bool:
        """Whether what was granted may be started now."""
        return not (self._is_silent(now_ms) or self.wants_table) and self._read >= self._wanted

    def _is_silent(self, now_ms: int) -> bool:
        return self._heard_ms is None or now_ms - self._heard_ms > self._within_ms
