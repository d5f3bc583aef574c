"""Whose demand is cut in a market with rounding ``release``, and to what (decision 20).

The auction divides what whole jobs cannot. A team whose first job has waited long and does not fit
in the quota that the auction gives it has its demand cut to what the quota can hold, and the market
is cleared again: what the team could not use goes to others, at a lower price. In every round one
team of each pool is cut, the youngest stuck head first, so that older ones may fit by then.

What is set aside enters the auction with a limit of 0: it buys nothing, and may run on what nobody
buys; the team's bid stays the one that its whole demand drew. In the turn of a first job, when its
team's other jobs must not overtake it any more, they are not offered at all. `reference_releasing`
says the same job by job.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from walras_clearing.arrays import ABSENT, ClearedArrays
from walras_clearing_service.books import Difference
from walras_clearing_service.exact_sums import sum_of
from walras_clearing_service.job_table import DRAINING, FREE, RUNNING, JobTable, Rows
from walras_clearing_service.model import StuckHead
from walras_clearing_service.offers import Offer, queue_order
from walras_clearing_service.team_table import TeamTable
from walras_contracts.placing import STUCK_AFTER_CYCLES, STUCK_TEAMS_OF_A_POOL

Places = NDArray[np.intp]
"""Places in an offer."""


@dataclass(frozen=True, slots=True)
class Released:
    """A team whose demand was cut.

    ``pool_place`` is the place of its pool in id order, ``quota_macc`` what it would have got,
    ``kept_macc`` the demand that is left, ``needed_macc`` the size of the job set aside.
    """

    head: StuckHead
    pool_place: int
    needed_macc: int
    quota_macc: int
    kept_macc: int


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """An offer after some teams were cut, and how it differs: `books.Difference` of the two."""

    offer: Offer
    difference: Difference


@dataclass(frozen=True, slots=True)
class _Candidate:
    head: StuckHead
    row: int
    team: int

    @property
    def has_turn(self) -> bool:
        return self.head.turn_since_ms is not None


@dataclass(frozen=True, slots=True, eq=False)
class _TeamCut:
    """Places of a team's jobs that ask for nothing now, and of those that are not offered."""

    released: Released
    aside: Places
    out: Places


class Releasing:
    """The cuts of one market in one cycle.

    Parameters
    ----------
    heads
        As placement told them.
    pool_index
        Place of each team's pool in id order.
    offer
        The whole demand.
    """

    def __init__(
        self,
        heads: Iterable[StuckHead],
        jobs: JobTable,
        teams: TeamTable,
        pool_index: NDArray[np.int32],
        offer: Offer,
    ) -> None:
        self._jobs = jobs
        self._teams = teams
        self._cuts: list[Released] = []
        of_pool: dict[int, list[_Candidate]] = {}
        for candidate in self._candidates(heads, offer):
            of_pool.setdefault(int(pool_index[candidate.team]), []).append(candidate)
        self._waiting = {pool: _Queue(of_pool[pool]) for pool in sorted(of_pool)}

    @property
    def released(self) -> tuple[Released, ...]:
        """What was cut so far, in order."""
        return tuple(self._cuts)

    def next_cut(self, offer: Offer, result: ClearedArrays) -> Cut | None:
        """Return the offer after the next team of each pool was cut; None: there is none.

        Parameters
        ----------
        offer, result
            How the market was cleared last.
        """
        found = []
        for pool, queue in self._waiting.items():
            while (candidate := queue.pop()) is not None:
                cut = self._cut(candidate, pool, offer, result)
                if cut is not None:
                    queue.count(candidate)
                    found.append(cut)
                    break
        if not found:
            return None
        self._cuts += [cut.released for cut in found]
        limit_micro = offer.limit_micro.copy()
        is_aside, is_out = np.zeros((2, len(limit_micro)), dtype=np.bool_)
        for cut in found:
            is_aside[cut.aside] = True
            is_out[cut.out] = True
        limit_micro[is_aside] = 0
        stays = ~is_out
        after = replace(
            offer,
            rows=offer.rows[stays],
            team=offer.team[stays],
            size_macc=offer.size_macc[stays],
            limit_micro=limit_micro[stays],
        )
        return Cut(after, Difference(np.flatnonzero(is_aside[stays]), offer.rows[is_out]))

    def _candidates(self, heads: Iterable[StuckHead], offer: Offer) -> list[_Candidate]:
        """Return the heads that are pending demand here, one a team."""
        long = [head for head in heads if head.waited_cycles >= STUCK_AFTER_CYCLES]
        rows = [self._jobs.handle_of(head.job) for head in long]
        known = np.array([row for row in rows if row is not None], dtype=np.int64)
        places = np.flatnonzero(np.isin(offer.rows, known) & (offer.limit_micro > 0))
        offered = dict.fromkeys(offer.rows[places].tolist())
        found: dict[int, _Candidate] = {}
        for head, row in zip(long, rows, strict=True):
            if row is None or row not in offered or self._jobs.flags[row] & RUNNING:
                continue
            team = int(self._jobs.team[row])
            found.setdefault(team, _Candidate(head, row, team))
        return list(found.values())

    def _cut(
        self, candidate: _Candidate, pool: int, offer: Offer, result: ClearedArrays
    ) -> _TeamCut | None:
        """Return how a team's demand is cut; None: its first job fits, or nothing is unspendable.

        A job that asks for less than the price is no reason to cut anything. A team that buys
        nothing has nothing to release, and may go on with what nobody buys.
        """
        price = int(result.price_micro[pool])
        quota_macc = int(result.allocated_macc[candidate.team])
        if price == ABSENT or quota_macc == 0:
            return None
        mine = np.flatnonzero(offer.team == candidate.team)
        rows, limits, sizes = offer.rows[mine], offer.limit_micro[mine], offer.size_macc[mine]
        asks = limits > 0
        pays = asks & (limits >= price)
        first = np.flatnonzero(rows == candidate.row)
        if not pays[first].all():
            return None
        holds = (self._jobs.flags[rows] & RUNNING) != 0
        needed_macc = int(sizes[first].sum())
        room_macc = quota_macc - sum_of(sizes[holds & pays])
        if candidate.has_turn:
            if needed_macc <= room_macc:
                return None
            kept = holds & asks & self._goes_before(candidate.head, rows)
            out = ~kept & (asks | ~holds)
            aside = np.zeros(len(mine), dtype=np.bool_)
        else:
            taken = self._that_fit(rows, sizes, pays & ~holds, room_macc)
            left_macc = room_macc - sum_of(sizes[taken])
            if taken[first].all() or left_macc <= 0:
                return None
            kept = taken | (holds & asks)
            out = np.zeros(len(mine), dtype=np.bool_)
            aside = asks & ~kept
        kept_macc = sum_of(sizes[kept])
        released = Released(candidate.head, pool, needed_macc, quota_macc, kept_macc)
        return _TeamCut(released, mine[aside], mine[out])

    def _goes_before(self, head: StuckHead, rows: Rows) -> NDArray[np.bool_]:
        """Whether jobs that hold devices go before a first job in its turn.

        What began in the turn overtook it: until it has told the turn, placement fills what becomes
        free in the step in which it does, before any quota can say otherwise. Such jobs leave
        again, and what leaves or runs for nothing must not take the quota that the first job waits
        for.
        """
        assert head.turn_since_ms is not None
        started_ms = self._jobs.started_ms[rows]
        gives_way = (self._jobs.flags[rows] & (DRAINING | FREE)) != 0
        goes_before: NDArray[np.bool_] = (started_ms <= head.turn_since_ms) & ~gives_way
        return goes_before

    def _that_fit(
        self,
        rows: Rows,
        sizes: NDArray[np.int64],
        pending: NDArray[np.bool_],
        room_macc: int,
    ) -> NDArray[np.bool_]:
        """Return which of a team's pending jobs fit in a room, in the order of its queue."""
        taken = np.zeros(len(rows), dtype=np.bool_)
        places = np.flatnonzero(pending & (sizes <= room_macc))
        order = places[queue_order(self._jobs, self._teams, rows[places])]
        smallest_macc = int(sizes[places].min(initial=room_macc))
        for place, size_macc in zip(order.tolist(), sizes[order].tolist(), strict=True):
            if room_macc < smallest_macc:
                break
            if size_macc <= room_macc:
                room_macc -= size_macc
                taken[place] = True
        return taken


class _Queue:
    """The candidates of a pool, youngest first, and how many may still be cut.

    The places of those whose turn it is are kept for them: the oldest of these, at most all three.
    """

    def __init__(self, candidates: Sequence[_Candidate]) -> None:
        ordered = sorted(candidates, key=lambda c: (-c.head.pending_since_ms, c.head.team))
        turns = [c for c in ordered if c.has_turn][-STUCK_TEAMS_OF_A_POOL:]
        others = [c for c in ordered if not c.has_turn]
        chosen = {c.team: None for c in (*turns, *others)}
        self._left = [c for c in ordered if c.team in chosen]
        self._others = STUCK_TEAMS_OF_A_POOL - len(turns)

    def pop(self) -> _Candidate | None:
        """Return the next candidate."""
        while self._left:
            candidate = self._left.pop(0)
            if candidate.has_turn or self._others > 0:
                return candidate
        return None

    def count(self, candidate: _Candidate) -> None:
        """Count a candidate that was cut."""
        if not candidate.has_turn:
            self._others -= 1
