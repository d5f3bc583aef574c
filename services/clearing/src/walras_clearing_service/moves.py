"""Which pending jobs move to a cheaper market in this cycle (design §4 Bids 2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walras_clearing_service.job_hash import HASH_SPACE, Hashes, job_hashes
from walras_clearing_service.job_table import ACTIVE, RUNNING, JobTable, Rows
from walras_clearing_service.model import BidderParameters, CycleInput
from walras_clearing_service.names import NONE
from walras_clearing_service.places import Homes, Places
from walras_clearing_service.team_table import TeamTable
from walras_contracts.quantities import PPM


@dataclass(frozen=True, slots=True)
class Choice:
    """Where jobs of one kind would rather be.

    ``bound`` is what a job's hash must stay below. ``source`` names the supply that the moves are
    charged to: ``market/`` where the reference price was 0, ``market/pool`` where only the pool's
    own supply came free, nothing where the price is above 0.
    """

    market: str
    bound: int
    source: str


class Moves:
    """The moves of one cycle."""

    def __init__(
        self, cycle_input: CycleInput, places: Places, jobs: JobTable, teams: TeamTable
    ) -> None:
        self._cycle = cycle_input.cycle
        self._parameters = cycle_input.parameters
        self._places = places
        self._jobs = jobs
        self._pool_of_team = teams.pool
        self._totals = np.unique(
            np.array([market.total_macc for market in places.open.values()], dtype=np.int64)
        )

    def apply(self, homes: Homes) -> None:
        """Change ``homes`` in place for the jobs that move."""
        rows = self._candidates(homes)
        drawn = job_hashes(self._jobs.key_hash[rows], self._cycle)
        # No gap exceeds the whole price, so no bound exceeds this one.
        most = -(-HASH_SPACE * self._parameters.move_share_ppm // PPM)
        below = _below(drawn, most)
        rows, drawn = rows[below], drawn[below]
        kinds, choices = self._choices(rows, homes)
        free: list[tuple[int, str, int, Choice]] = []
        for kind, choice in enumerate(choices):
            if choice is None:
                continue
            mine = np.flatnonzero(kinds == kind)
            mine = mine[_below(drawn[mine], choice.bound)]
            if not choice.source:
                homes[rows[mine]] = self._places.markets.number(choice.market)
                continue
            handles = rows[mine].tolist()
            keys = [self._jobs.keys[handle] for handle in handles]
            free += zip(drawn[mine].tolist(), keys, handles, [choice] * len(keys), strict=True)
        self._fill_free_markets(free, homes)

    def _candidates(self, homes: Homes) -> Rows:
        """Return pending jobs that have a home, and more than one type."""
        jobs = self._jobs
        choosy = np.array([len(types) > 1 for types in jobs.type_lists.lists], dtype=np.bool_)
        pending = (jobs.flags[: jobs.rows] & (ACTIVE | RUNNING)) == ACTIVE
        return np.flatnonzero(pending & (homes != NONE) & choosy[jobs.types[: jobs.rows]])

    def _choices(self, rows: Rows, homes: Homes) -> tuple[NDArray[np.intp], list[Choice | None]]:
        """Return the kind of each job, and what jobs of each kind would rather have.

        A kind is what the choice depends on: types, home, pool, and which markets can hold the job.
        """
        jobs, lists = self._jobs, self._jobs.type_lists.lists
        columns = (
            (jobs.types[rows], len(lists)),
            (homes[rows], len(self._places.markets)),
            (self._pool_of_team[jobs.team[rows]], len(jobs.pools)),
            (np.searchsorted(self._totals, jobs.size_macc[rows]), len(self._totals) + 1),
        )
        code = np.zeros(len(rows), dtype=np.int64)
        for column, count in columns:
            code = code * count + column
        found, kinds = np.unique(code, return_inverse=True)
        choices = []
        for kind in found.tolist():
            types_home_pool, size_class = divmod(kind, columns[3][1])
            types_home, pool = divmod(types_home_pool, columns[2][1])
            types, home = divmod(types_home, columns[1][1])
            choices.append(self._choose(lists[types], home, jobs.pools.names[pool], size_class))
        return kinds, choices

    def _choose(
        self, types: tuple[int, ...], home: int, pool: str, size_class: int
    ) -> Choice | None:
        places, names = self._places, self._places.markets.names
        here = places.last.get(names[home])
        if here is None or names[home] not in places.open:
            return None
        found: list[tuple[int, int, int, str, str]] = []
        for rank, number in enumerate(types):
            name = names[number]
            there = places.last.get(name)
            if number == home or name not in places.open or there is None:
                continue
            price = there.price_for(pool)
            if price is None or not self._holds(places.open[name].total_macc, size_class):
                continue
            source = self._source(name, pool, price)
            # Of several free markets the emptiest: else the full one in front would hide it.
            found.append((price, -self._unsold(source) if source else 0, rank, name, source))
        if not found:
            return None
        price, _, _, name, source = min(found)
        bound = move_bound(here.price_for(pool), price, self._parameters)
        return Choice(name, bound, source) if bound else None

    def _holds(self, total_macc: int, size_class: int) -> bool:
        return size_class < len(self._totals) and total_macc >= int(self._totals[size_class])

    def _source(self, market: str, pool: str, price: int) -> str:
        if price > 0:
            return ""
        reference = self._places.last[market].reference_price_micro
        return f"{market}/" if reference == 0 else f"{market}/{pool}"

    def _unsold(self, source: str) -> int:
        """Return the supply behind a zero price that nobody bought."""
        market, _, pool = source.partition("/")
        last = self._places.last[market]
        return last.idle_own_macc.get(pool, 0) if pool else last.unsold_macc

    def _fill_free_markets(self, wishes: list[tuple[int, str, int, Choice]], homes: Homes) -> None:
        """Let jobs move into what is free, in the order of their hashes, up to half of it."""
        # The hash leads the total order, so that no team goes first in every cycle.
        wishes.sort(key=lambda wish: wish[:2])
        moved: dict[str, int] = {}
        for _, _, handle, choice in wishes:
            size = int(self._jobs.size_macc[handle])
            unsold, before = self._unsold(choice.source), moved.get(choice.source, 0)
            # Half of what was left unsold at most; a single job may take all of it, or no large job
            # could ever reach a free market (docs/decisions/0007-moves-into-free-markets.md).
            if size > (unsold if before == 0 else unsold // 2 - before):
                continue
            moved[choice.source] = before + size
            homes[handle] = self._places.markets.number(choice.market)


def move_bound(price: int | None, new_price: int, parameters: BidderParameters) -> int:
    """Return ⌈g·share·2^64⌉, or 0 where the gap g does not exceed the smallest one.

    A job moves where ``hash < g·share·2^64``.
    """
    if price is None:
        # Nothing can be bought here at any price: the gap is whole.
        gap, whole = 1, 1
    else:
        gap, whole = price - new_price, price
    if gap <= 0 or gap * PPM <= parameters.move_gap_ppm * whole:
        return 0
    return -(-HASH_SPACE * gap * parameters.move_share_ppm // (whole * PPM))


def _below(drawn: Hashes, bound: int) -> NDArray[np.bool_]:
    """Whether each hash is below a bound, which may be any integer that is not negative."""
    if bound <= 0:
        return np.zeros(len(drawn), dtype=np.bool_)
    return drawn <= np.uint64(min(bound, HASH_SPACE) - 1)
