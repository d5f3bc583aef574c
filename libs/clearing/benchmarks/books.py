"""A `Book` filled from columns, and the changes that the warm rows make to it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from libs.clearing.benchmarks.figures import BenchError
from libs.clearing.benchmarks.instances import (
    CHUNK_JOBS,
    draw_limits,
    draw_sizes,
    moved_bids,
)
from walras_clearing import Book, clear_arrays
from walras_clearing.arrays import ClearedArrays, Column, MarketArrays, Numbers


def grown_book(market: MarketArrays) -> Book:
    """Return a book that took a market in chunks, as one does that grows; keys are rows."""
    book = Book.of(_first_jobs(market, CHUNK_JOBS))
    for first in range(CHUNK_JOBS, len(market.size_macc), CHUNK_JOBS):
        rows = slice(first, min(first + CHUNK_JOBS, len(market.size_macc)))
        book.upsert_jobs(
            np.arange(rows.start, rows.stop, dtype=np.int32),
            market.team_of_job[rows],
            market.size_macc[rows],
            market.limit_micro[rows],
        )
    return book


def _first_jobs(market: MarketArrays, count: int) -> MarketArrays:
    return replace(
        market,
        team_of_job=market.team_of_job[:count],
        size_macc=market.size_macc[:count],
        limit_micro=market.limit_micro[:count],
    )


@dataclass(frozen=True, slots=True)
class Change:
    """Jobs that get other sizes and limits, and the bids that hold afterwards."""

    jobs: Numbers
    teams: Numbers
    sizes: Column
    limits: Column
    bids: Column


class Changes:
    """Draws changes of whole teams, and remembers the bids that the last one left."""

    def __init__(self, market: MarketArrays, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.bids = market.bid_micro_per_hour.copy()
        order = np.argsort(market.team_of_job, kind="stable").astype(np.int32)
        counts = np.bincount(market.team_of_job, minlength=len(self.bids))
        self.jobs_of_team = np.split(order, np.cumsum(counts)[:-1])
        self.filled = np.flatnonzero(counts)

    def of_teams(self, count: int) -> Change:
        """All jobs of some teams change, and the bids of all teams."""
        self.bids = moved_bids(self.rng, self.bids)
        return self._change(self.rng.choice(self.filled, count, replace=False))

    def of_one_team(self) -> Change:
        """All jobs of a team change, and its bid."""
        team = int(self.rng.choice(self.filled))
        self.bids = self.bids.copy()
        self.bids[team] = moved_bids(self.rng, self.bids[team : team + 1])[0]
        return self._change(np.array([team]))

    def _change(self, teams: Column) -> Change:
        jobs = [self.jobs_of_team[team] for team in teams.tolist()]
        counts = [len(part) for part in jobs]
        return Change(
            jobs=np.concatenate(jobs),
            teams=np.repeat(teams, counts).astype(np.int32),
            sizes=draw_sizes(self.rng, sum(counts)),
            limits=draw_limits(self.rng, sum(counts)),
            bids=self.bids,
        )


def apply_all_bids(book: Book, change: Change) -> ClearedArrays:
    """One cycle: changed jobs in, all bids in, clear."""
    book.upsert_jobs(change.jobs, change.teams, change.sizes, change.limits)
    book.set_bids(change.bids)
    return book.clear()


def apply_one_bid(book: Book, change: Change) -> ClearedArrays:
    """One cycle in which a single team changed."""
    team = int(change.teams[0])
    book.upsert_jobs(change.jobs, change.teams, change.sizes, change.limits)
    book.set_bid(team, int(change.bids[team]))
    return book.clear()


def expect_cold_result(book: Book, warm: ClearedArrays) -> None:
    """Refuse a warm result, and thus its figure, unless a cold clear says the same.

    Raises
    ------
    BenchError
        The two differ.
    """
    cold = clear_arrays(book.market())
    for name, mine, theirs in differences(warm, cold):
        raise BenchError(f"a warm clear is not the cold one: {name} {mine} against {theirs}")


def differences(one: ClearedArrays, other: ClearedArrays) -> Iterator[tuple[str, object, object]]:
    """Yield each field in which two results differ, with both values."""
    for name in ClearedArrays.__slots__:
        mine, theirs = getattr(one, name), getattr(other, name)
        if not np.array_equal(np.array(mine), np.array(theirs)):
            yield name, mine, theirs
