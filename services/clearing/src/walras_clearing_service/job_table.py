"""All jobs as columns: what the queue, placement and clearing's own memory say of each.

A job has a handle, the row of all columns, as long as anything is known of it; rows of jobs that
are gone are used again. Handles depend on what came before, so nothing visible follows their order.
What a cycle looks at (`flags`, `size_macc`, `running_in`, `started_ms`) is derived from the raw
columns by `refresh`, for the rows that changed since the last cycle.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from walras_clearing.arrays import NO_LIMIT
from walras_clearing_service.input_digest import SUM_SPACE, WORDS, row_digests, sum_of
from walras_clearing_service.names import NONE, Names, TypeLists, hash_of
from walras_contracts.demand import JobQueued
from walras_contracts.wait_reasons import ENDED_STATES, NO_DEMAND, NO_PLACE
from walras_contracts.work import JobState, JobStatusChanged, WorkClass

Rows = NDArray[np.int64]
"""Handles."""

QUEUED, CANCELLED, GANG_IN_QUEUE = 1, 2, 4
"""Bits of ``said_by_queue``."""
TOLD, ENDED, HOLDS, DRAINS, NO_PLACE_TOLD, ASIDE, FOR_NOTHING = 1, 2, 4, 8, 16, 32, 64
"""Bits of ``said_by_placement``."""
ACTIVE, RUNNING, GANG, REFUSED, DRAINING, MARKED, FREE = 1, 2, 4, 8, 16, 32, 64
"""Bits of ``flags``: may be demand; holds devices of a market; all or nothing; placement says that
there is no place at all; is being drained; ``no_place_since`` is set; runs for nothing. All are 0
unless ACTIVE."""
DIGEST_FLAGS: Final = ((GANG, 1), (DRAINING, 2), (REFUSED, 4), (FREE, 8))

HOLDING_STATES = frozenset({JobState.RUNNING, JobState.DRAINING})
FIRST_ROWS = 1024
COLUMNS: Final[dict[str, tuple[type[np.generic], int]]] = {
    "said_by_queue": (np.uint8, 0),
    "queued_macc": (np.int64, 0),
    "limit_micro": (np.int64, 0),
    "types": (np.int32, 0),
    "pool": (np.int32, NONE),
    "minimum_run_ms": (np.int64, 0),
    "position": (np.int64, 0),
    "said_by_placement": (np.uint8, 0),
    "held_in": (np.int32, NONE),
    "held_since_ms": (np.int64, NONE),
    "needed_macc": (np.int64, 0),
    "assigned": (np.int32, NONE),
    "no_place_since": (np.int64, NONE),
    "team": (np.int32, NONE),
    "key_hash": (np.uint64, 0),
    "key_bytes": (np.uint8, 0),
    "flags": (np.uint8, 0),
    "size_macc": (np.int64, 0),
    "running_in": (np.int32, NONE),
    "started_ms": (np.int64, NONE),
    "offered_in": (np.int32, NONE),
    "offered_macc": (np.int64, 0),
    "offered_limit_micro": (np.int64, 0),
}
"""Columns with their type and the value of an unused row."""
KEY_BYTES_MAX = 255
"""A job's key is no longer (contracts: two ids and a slash)."""


class JobTable:
    """The jobs of all teams; columns are valid up to `rows`.

    ``offered_in``, ``offered_macc`` and ``offered_limit_micro`` say how a job entered the last
    auction (`books`); `NONE`: it did not.
    """

    said_by_queue: NDArray[np.uint8]
    queued_macc: NDArray[np.int64]
    limit_micro: NDArray[np.int64]
    types: NDArray[np.int32]
    pool: NDArray[np.int32]
    minimum_run_ms: NDArray[np.int64]
    position: NDArray[np.int64]
    said_by_placement: NDArray[np.uint8]
    held_in: NDArray[np.int32]
    held_since_ms: NDArray[np.int64]
    needed_macc: NDArray[np.int64]
    assigned: NDArray[np.int32]
    no_place_since: NDArray[np.int64]
    team: NDArray[np.int32]
    key_hash: NDArray[np.uint64]
    key_bytes: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    size_macc: NDArray[np.int64]
    running_in: NDArray[np.int32]
    started_ms: NDArray[np.int64]
    offered_in: NDArray[np.int32]
    offered_macc: NDArray[np.int64]
    offered_limit_micro: NDArray[np.int64]

    def __init__(self, markets: Names, teams: Names, pools: Names) -> None:
        self.markets, self.teams, self.pools = markets, teams, pools
        self.type_lists = TypeLists(markets)
        self.keys: list[str] = []
        self.rows = 0
        self._handles: dict[str, int] = {}
        self._free: list[int] = []
        self._changed: dict[int, None] = {}
        self._left: dict[int, None] = {}
        self._empty: dict[int, None] = {}
        self._size = 0
        self._sum = 0
        self._active = 0
        self._digests = np.empty((0, 2), dtype=np.uint64)
        self._grow(FIRST_ROWS)

    @property
    def content(self) -> tuple[int, int]:
        """How many jobs may be demand, and the sum of their hashes, as of the last refresh."""
        return self._active, self._sum

    def handle_of(self, key: str) -> int | None:
        """Return the handle of a job; None: nothing is known of it."""
        return self._handles.get(key)

    def put_job(self, key: str, job: JobQueued | None) -> None:
        """Take the latest queue record of a job; None: it left the queue."""
        handle = self._changed_handle(key)
        if job is None:
            self.said_by_queue[handle] = 0
            self._left[handle] = None
            self._empty[handle] = None
            return
        self._left.pop(handle, None)
        said = QUEUED | (CANCELLED if job.cancelled else 0) | (GANG_IN_QUEUE if job.gang else 0)
        self.said_by_queue[handle] = said
        self.queued_macc[handle] = job.size_macc
        self.limit_micro[handle] = NO_LIMIT if job.limit_micro is None else job.limit_micro
        self.types[handle] = self.type_lists.number(job.types)
        self.pool[handle] = self.pools.number(job.pool)
        self.minimum_run_ms[handle] = job.minimum_run_ms
        self.position[handle] = job.position

    def put_status(self, key: str, status: JobStatusChanged | None) -> None:
        """Take the latest status record of a job, which may come before the job's own.

        None: placement forgot it.
        """
        handle = self._changed_handle(key)
        if status is None:
            self.said_by_placement[handle] = 0
            self.needed_macc[handle] = 0
            self.held_in[handle] = self.held_since_ms[handle] = NONE
            self._empty[handle] = None
            return
        said, state = TOLD, status.state
        market, started_ms = None, None
        if state in HOLDING_STATES:
            said |= HOLDS
            market, started_ms = status.market, status.started_ms
            if state is JobState.DRAINING:
                said |= DRAINS
            elif status.work_class is WorkClass.OPPORTUNISTIC:
                said |= FOR_NOTHING
        elif state in ENDED_STATES:
            said |= ENDED
        elif status.reason in NO_PLACE:
            said |= NO_PLACE_TOLD
        elif status.reason in NO_DEMAND:
            said |= ASIDE
        self.said_by_placement[handle] = said
        self.needed_macc[handle] = status.needed_macc
        self.held_in[handle] = NONE if market is None else self.markets.number(market)
        self.held_since_ms[handle] = NONE if started_ms is None else started_ms

    def assign(self, key: str, market: str) -> None:
        """Remember the market of a job."""
        self.assigned[self._changed_handle(key)] = self.markets.number(market)

    def mark_no_place(self, key: str, since_cycle: int | None) -> None:
        """Remember since when there is no place for a job; None: there is one."""
        self.no_place_since[self._changed_handle(key)] = (
            NONE if since_cycle is None else since_cycle
        )

    def forget_left(self) -> list[tuple[str, bool, bool]]:
        """Forget what was remembered of jobs that left the queue.

        Returns
        -------
        list
            Per forgotten job in key order: its key, whether an assignment went, whether a mark
            went.
        """
        gone = []
        for handle in sorted(self._left, key=self.keys.__getitem__):
            assigned = self.assigned[handle] != NONE
            marked = self.no_place_since[handle] != NONE
            if assigned or marked:
                gone.append((self.keys[handle], bool(assigned), bool(marked)))
                self.assigned[handle] = self.no_place_since[handle] = NONE
                self._changed[handle] = None
        self._left.clear()
        return gone

    def assignments(self) -> dict[str, str]:
        """Return the markets that are remembered, by job key."""
        found = np.flatnonzero(self.assigned[: self.rows] != NONE).tolist()
        pairs = ((self.keys[h], self.markets.names[self.assigned[h]]) for h in found)
        return dict(sorted(pairs))

    def refresh(self) -> None:
        """Derive what a cycle looks at for the rows that changed, and update the sum of hashes."""
        changed = np.fromiter(self._changed, dtype=np.int64, count=len(self._changed))
        self._changed.clear()
        if not len(changed):
            return
        was = (self.flags[changed] & ACTIVE) != 0
        self._sum -= sum_of(self._digests[changed[was]])
        self._derive(changed)
        live = changed[(self.flags[changed] & ACTIVE) != 0]
        self._digests[live] = self._hashes_of(live)
        self._sum = (self._sum + sum_of(self._digests[live])) % SUM_SPACE
        self._active += len(live) - int(np.count_nonzero(was))

    def release_empty(self) -> None:
        """Free the rows of which nothing is known any more and that no book holds."""
        for handle in list(self._empty):
            if self.said_by_queue[handle] or self.said_by_placement[handle]:
                del self._empty[handle]
                continue
            remembered = self.assigned[handle] != NONE or self.no_place_since[handle] != NONE
            # A job of this key that comes back while a book holds it must find this row.
            held = self.offered_in[handle] != NONE
            if not (remembered or held or handle in self._changed):
                del self._empty[handle]
                del self._handles[self.keys[handle]]
                self.keys[handle] = ""
                self._free.append(handle)

    def _changed_handle(self, key: str) -> int:
        handle = self._handles.get(key)
        if handle is None:
            handle = self._new(key)
        self._changed[handle] = None
        return handle

    def _new(self, key: str) -> int:
        if self._free:
            handle = self._free.pop()
            self.keys[handle] = key
        else:
            handle = self.rows
            if handle == self._size:
                self._grow(2 * self._size)
            self.keys.append(key)
            self.rows += 1
        self._handles[key] = handle
        self.team[handle] = self.teams.number(key.partition("/")[0])
        self.key_hash[handle] = hash_of(key)
        # A foreign tombstone may name what can be no job; it has no row in any frame.
        self.key_bytes[handle] = min(len(key), KEY_BYTES_MAX)
        return handle

    def _grow(self, size: int) -> None:
        for name, (kind, unused) in COLUMNS.items():
            column = np.full(size, unused, dtype=kind)
            if self._size:
                column[: self._size] = getattr(self, name)
            setattr(self, name, column)
        digests = np.zeros((size, 2), dtype=np.uint64)
        digests[: self._size] = self._digests
        self._digests, self._size = digests, size

    def _derive(self, rows: Rows) -> None:
        queue, placement = self.said_by_queue[rows], self.said_by_placement[rows]
        active = ((queue & (QUEUED | CANCELLED)) == QUEUED) & ((placement & (ENDED | ASIDE)) == 0)
        holds = active & ((placement & HOLDS) != 0)
        self.running_in[rows] = np.where(holds, self.held_in[rows], NONE)
        self.started_ms[rows] = np.where(holds, self.held_since_ms[rows], NONE)
        # Placement gives whole devices: what it says that the job needs or holds is its demand.
        self.size_macc[rows] = np.maximum(self.queued_macc[rows], self.needed_macc[rows])
        flags = np.zeros(len(rows), dtype=np.uint8)
        for bit, where in (
            (RUNNING, self.running_in[rows] != NONE),
            (GANG, (queue & GANG_IN_QUEUE) != 0),
            (REFUSED, (placement & NO_PLACE_TOLD) != 0),
            (DRAINING, (placement & DRAINS) != 0),
            (MARKED, self.no_place_since[rows] != NONE),
            (FREE, (placement & FOR_NOTHING) != 0),
        ):
            flags[where] |= bit
        self.flags[rows] = np.where(active, flags | ACTIVE, 0)

    def _hashes_of(self, rows: Rows) -> NDArray[np.uint64]:
        """Return the hashes of active jobs (`input_digest.row_digest`)."""
        flags = np.zeros(len(rows), dtype=np.int64)
        for bit, digest_bit in DIGEST_FLAGS:
            flags |= np.where(self.flags[rows] & bit, digest_bit, 0)
        markets = self.markets.hashes()
        limits = self.limit_micro[rows]
        words = (
            self.type_lists.hashes()[self.types[rows]],
            self.size_macc[rows],
            np.where(limits == NO_LIMIT, NONE, limits),
            flags,
            self.minimum_run_ms[rows],
            self.position[rows],
            markets[self.running_in[rows]],
            self.started_ms[rows],
            markets[self.assigned[rows]],
            self.no_place_since[rows],
        )
        matrix = np.empty((len(rows), WORDS), dtype=np.uint64)
        for place, column in enumerate(words):
            matrix[:, place] = column.view(np.uint64)
        return row_digests([self.keys[handle] for handle in rows.tolist()], matrix)
