"""The frames of a cleared market: what changed since its last framed cycle, or all of it.

`walras_contracts.market.CycleFramed` says what the columns mean. What was framed last of the jobs
is in the job table (``offered_*``), of the teams here. It is memory: without it a key frame is
written, and the next frames hold changes again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from walras_clearing.arrays import NO_LIMIT, ClearedArrays
from walras_clearing_service.bidder import Bids
from walras_clearing_service.books import Difference
from walras_clearing_service.job_table import JobTable, Rows
from walras_clearing_service.offers import Offer, queue_order
from walras_clearing_service.payloads import cycle_framed
from walras_clearing_service.team_table import TeamTable
from walras_contracts.market import FrameKind
from walras_runtime.records import Output

KEY_FRAME_EVERY: Final = 60
"""Cycles between two key frames, so that a reader need not begin at the start of the log."""
PART_BYTES_MAX: Final = 512 * 1024
HEAD_BYTES: Final = 1024
"""More than a part takes without its rows."""
NULL_BYTES: Final = 4
JOB_BYTES_MIN: Final = 10
"""No row of a job takes less: three characters of key, five of punctuation, two digits."""
POWERS: Final = 10 ** np.arange(1, 19, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class FramedTeams:
    """A market's teams as they were framed in a cycle; one row a team, `present` where it was."""

    cycle: int
    present: NDArray[np.bool_]
    pool: NDArray[np.int32]
    bid_micro_per_hour: NDArray[np.int64]
    allocated_macc: NDArray[np.int64]
    opportunistic_macc: NDArray[np.int64]

    @staticmethod
    def of(
        cycle: int, teams: TeamTable, offer: Offer, bids: Bids, result: ClearedArrays
    ) -> "FramedTeams":
        """Return the teams of a cleared market."""
        columns = []
        for column in (result.allocated_macc, result.opportunistic_macc):
            # A market without pools has no teams.
            filled = np.zeros(len(teams), dtype=np.int64)
            filled[: len(column)] = column
            columns.append(filled)
        return FramedTeams(cycle, offer.takes_part, teams.pool, bids, *columns)

    def changed_since(self, before: "FramedTeams") -> NDArray[np.bool_]:
        """Return which teams are present and new or different."""
        known = len(before.present)
        same = before.present & self.present[:known]
        for mine, old in (
            (self.pool, before.pool),
            (self.bid_micro_per_hour, before.bid_micro_per_hour),
            (self.allocated_macc, before.allocated_macc),
            (self.opportunistic_macc, before.opportunistic_macc),
        ):
            same &= mine[:known] == old
        changed = self.present.copy()
        changed[:known] &= ~same
        return changed

    def gone_since(self, before: "FramedTeams") -> NDArray[np.bool_]:
        """Return which teams are no longer present."""
        gone = np.zeros(len(self.present), dtype=np.bool_)
        known = len(before.present)
        gone[:known] = before.present & ~self.present[:known]
        return gone


@dataclass(frozen=True, slots=True)
class Frame:
    """The parts that were made of a cycle of one market, and how many rows took part."""

    kind: FrameKind
    parts: tuple[Output, ...]
    jobs: int
    teams: int


NO_FRAME: Final = Frame(FrameKind.NONE, (), 0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Framed:
    """One cleared market that is to be framed.

    ``before`` is None where what was framed last is not known.
    """

    market: str
    cycle: int
    market_time_ms: int
    jobs: JobTable
    teams: TeamTable
    offer: Offer
    difference: Difference
    now: FramedTeams
    before: FramedTeams | None

    def frame(self) -> Frame:
        """Return the frame: of changes, or a key frame where one is due or no larger."""
        kind, rows = FrameKind.KEY, self._whole()
        # Not "in every 60th cycle": a live leader may skip just that one.
        before, period = self.before, self.cycle // KEY_FRAME_EVERY
        if before is not None and period == before.cycle // KEY_FRAME_EVERY:
            changes = self._changes(before)
            if changes.is_smaller_than(rows):
                kind, rows = FrameKind.CHANGES, changes
        rows.sort()
        cuts = list(_cuts(rows.bytes()))
        parts = tuple(
            cycle_framed(
                {
                    "market": self.market,
                    "cycle": self.cycle,
                    "market_time_ms": self.market_time_ms,
                    "kind": kind.value,
                    "part": number,
                    "parts": len(cuts),
                    **rows.columns(*cut),
                }
            )
            for number, cut in enumerate(cuts)
        )
        taking_part = int(np.count_nonzero(self.now.present))
        return Frame(kind, parts, len(self.offer.rows), taking_part)

    def _whole(self) -> "_Rows":
        nothing = np.zeros(len(self.now.present), dtype=np.bool_)
        rows = self.offer.rows
        return _Rows(self, np.arange(len(rows)), rows[:0], self.now.present, nothing)

    def _changes(self, before: FramedTeams) -> "_Rows":
        return _Rows(
            self,
            self.difference.changed,
            self.difference.gone,
            self.now.changed_since(before),
            self.now.gone_since(before),
        )


class _Rows:
    """The rows of a frame: jobs, jobs that left, teams, teams that left, one after the other."""

    def __init__(
        self,
        framed: Framed,
        jobs: NDArray[np.intp],
        gone_jobs: Rows,
        teams: NDArray[np.bool_],
        gone_teams: NDArray[np.bool_],
    ) -> None:
        self._framed = framed
        self._jobs, self._gone_jobs = jobs, gone_jobs
        order = framed.teams.in_order()
        self._teams, self._gone_teams = order[teams[order]], order[gone_teams[order]]

    def sort(self) -> None:
        """Put jobs into the order of team, queue and key; teams are by id already."""
        jobs, teams = self._framed.jobs, self._framed.teams
        self._jobs = self._jobs[queue_order(jobs, teams, self._framed.offer.rows[self._jobs])]
        # What left may be forgotten but for its key.
        keys = [jobs.keys[row] for row in self._gone_jobs.tolist()]
        places = sorted(range(len(keys)), key=keys.__getitem__)
        self._gone_jobs = self._gone_jobs[places]

    def is_smaller_than(self, other: "_Rows") -> bool:
        """Whether these rows take fewer bytes than others."""
        bytes_here = int(self.bytes().sum())
        return bytes_here < other.bytes_min() or bytes_here < int(other.bytes().sum())

    def bytes_min(self) -> int:
        """Return a number of bytes that the rows take in any case, found at no cost."""
        return JOB_BYTES_MIN * len(self._jobs)

    def bytes(self) -> NDArray[np.int64]:
        """Return what each row takes in the payload."""
        table, offer, now = self._framed.jobs, self._framed.offer, self._framed.now
        limits = offer.limit_micro[self._jobs]
        # Two quotes and a comma around a text, a comma after a number.
        jobs = table.key_bytes[offer.rows[self._jobs]].astype(np.int64) + 5
        jobs += _digits(offer.size_macc[self._jobs])
        jobs += np.where(limits == NO_LIMIT, NULL_BYTES, _digits(limits))
        gone_jobs = table.key_bytes[self._gone_jobs].astype(np.int64) + 3
        team_bytes = self._framed.teams.name_bytes
        pool_bytes = np.array([len(name) for name in table.pools.names], dtype=np.int64)
        mine = self._teams
        teams = team_bytes[mine] + pool_bytes[now.pool[mine]] + 9
        for column in (now.bid_micro_per_hour, now.allocated_macc, now.opportunistic_macc):
            teams += _digits(column[mine])
        return np.concatenate((jobs, gone_jobs, teams, team_bytes[self._gone_teams] + 3))

    def columns(self, start: int, end: int) -> dict[str, Any]:
        """Return the columns of the rows from ``start`` to before ``end``."""
        table, offer, now = self._framed.jobs, self._framed.offer, self._framed.now
        sections = []
        for section in (self._jobs, self._gone_jobs, self._teams, self._gone_teams):
            sections.append(section[max(0, start) : max(0, end)])
            start, end = start - len(section), end - len(section)
        jobs, gone_jobs, teams, gone_teams = sections
        names, pools = self._names(), table.pools.names
        limits = offer.limit_micro[jobs].tolist()
        return {
            "job_keys": [table.keys[row] for row in offer.rows[jobs].tolist()],
            "job_sizes_macc": offer.size_macc[jobs].tolist(),
            "job_limits_micro": [None if limit == NO_LIMIT else limit for limit in limits],
            "removed_jobs": [table.keys[row] for row in gone_jobs.tolist()],
            "teams": [names[team] for team in teams.tolist()],
            "team_pools": [pools[pool] for pool in now.pool[teams].tolist()],
            "bids_micro_per_hour": now.bid_micro_per_hour[teams].tolist(),
            "allocated_macc": now.allocated_macc[teams].tolist(),
            "opportunistic_macc": now.opportunistic_macc[teams].tolist(),
            "removed_teams": [names[team] for team in gone_teams.tolist()],
        }

    def _names(self) -> list[str]:
        return self._framed.teams.names.names


def _cuts(row_bytes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the borders of the parts, at least one, none larger than a part may be."""
    ends = np.cumsum(row_bytes)
    start = 0
    while True:
        before = int(ends[start - 1]) if start else 0
        room = before + PART_BYTES_MAX - HEAD_BYTES
        end = int(np.searchsorted(ends, room, side="right"))
        yield start, end
        start = end
        if start >= len(row_bytes):
            return


def _digits(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many decimal digits each non-negative number has."""
    return np.searchsorted(POWERS, values, side="right").astype(np.int64) + 1
