"""Long random sequences of edits: a book that was edited clears as one that never was."""

from random import Random

import numpy as np
import pytest

from libs.clearing.tests.edited_book import EditedBook
from walras_clearing.arrays import NO_LIMIT, Numbers

SHAPES = {
    "whole windows": (3, 12, 60, 2),
    "many teams": (4, 150, 400, 5),
    "narrow windows": (3, 25, 20_000, 10),
}
"""Pools, teams, jobs, and edits between two clearings."""


class Walk:
    """Random edits of a book with up to `jobs` jobs, over few or many distinct limits."""

    def __init__(self, seed: int, pools: int, teams: int, jobs: int) -> None:
        self.rng = Random(seed)
        self.jobs = jobs
        self.steps = 0
        self.edited = EditedBook(pools, 2 * jobs + 8)
        self.edited.arrange(self._pools_of(teams), None)

    def step(self) -> None:
        """Make one random edit."""
        edits = (
            (self.upsert_one, 60),
            (self.upsert_many, 30),
            (self.remove_some, 28),
            (self.start_again, 1),
            (self.change_a_bid, 40),
            (self.change_all_bids, 10),
            (self.change_supply, 10),
            (self.change_weights, 5),
            (self.change_policies, 5),
            (self.change_teams, 10),
        )
        chosen = self.rng.choices([edit for edit, _ in edits], [share for _, share in edits])
        chosen[0]()
        self.steps += 1

    def fill(self) -> None:
        """Start with all jobs, bids and supplies."""
        self.change_all_bids()
        self.change_supply()
        self._upsert(self.rng.sample(range(len(self.edited.team)), self.jobs))

    def upsert_one(self) -> None:
        job = self.rng.randrange(len(self.edited.team))
        limit = self._limit()
        self.edited.put(job, self._team(), self._size(), None if limit == NO_LIMIT else limit)

    def upsert_many(self) -> None:
        # Choices repeat: of a key that occurs twice the last counts.
        count = self.rng.randrange(1, 2 + self.jobs // 40)
        self._upsert(self.rng.choices(range(len(self.edited.team)), k=count))

    def remove_some(self) -> None:
        held = self.edited.keys_held().tolist()
        count = self.rng.randrange(1, 2 + self.jobs // 40)
        if len(held) > self.jobs:
            count = len(held) // 3
        self.edited.take_all(np.array(self.rng.sample(held, min(count, len(held))), np.int32))

    def start_again(self) -> None:
        """Let go of all jobs, and most often take others at once."""
        self.edited.take_all(self.edited.keys_held().astype(np.int32))
        if self.rng.randrange(4):
            self._upsert(self.rng.sample(range(len(self.edited.team)), self.jobs))

    def change_a_bid(self) -> None:
        self.edited.bid(self._team(), self._bid())

    def change_all_bids(self) -> None:
        bids = [self._bid() for _ in range(self.edited.teams)]
        self.edited.bid_all(np.array(bids, np.int64))

    def change_supply(self) -> None:
        own = [self.rng.choice((0, self._supply())) for _ in range(self.edited.pools)]
        self.edited.supply(self.rng.choice((0, self._supply())), np.array(own, np.int64))

    def change_weights(self) -> None:
        weights = [self.rng.randrange(3) for _ in range(self.edited.pools)]
        self.edited.weights(np.array(weights, np.int64))

    def change_policies(self) -> None:
        self.edited.policy(
            reserve_price_micro=self.rng.choice((0, 0, 1, 700, 10**6)),
            idle_own_supply=self.rng.choice(("keep", "lend")),
            margin=self.rng.choice(("pro_rata", "strict_order")),
        )

    def change_teams(self) -> None:
        more = self.rng.choice((0, 1)) if self.edited.teams < 300 else 0
        count = self.edited.teams + more
        pools = self._pools_of(count)
        if self.rng.randrange(2):
            pools[: self.edited.teams] = self.edited.pool_of
        order = None
        if self.rng.randrange(2):
            order = np.array(self.rng.sample(range(count), count), np.int32)
        self.edited.arrange(pools, order)

    def _upsert(self, jobs: list[int]) -> None:
        self.edited.put_all(
            np.array(jobs, np.int32),
            np.array([self._team() for _ in jobs], np.int32),
            np.array([self._size() for _ in jobs], np.int64),
            np.array([self._limit() for _ in jobs], np.int64),
        )

    def _pools_of(self, teams: int) -> Numbers:
        return np.array([self.rng.randrange(self.edited.pools) for _ in range(teams)], np.int32)

    def _team(self) -> int:
        return self.rng.randrange(self.edited.teams)

    def _size(self) -> int:
        return self.rng.choice((0, 1, 350, 1000, 8000, self.rng.randrange(64_000)))

    def _limit(self) -> int:
        spread = 10 ** self.rng.randrange(13)
        return self.rng.choice((0, 5, 900, 1 + self.rng.randrange(spread), NO_LIMIT))

    def _bid(self) -> int:
        return self.rng.choice((0, 1, 40, self.rng.randrange(10 ** self.rng.randrange(1, 12))))

    def _supply(self) -> int:
        # A job has about 12,000 macc: from a thousandth of the demand to more than all of it.
        return self.rng.randrange(1 + self.jobs * self.rng.choice((12, 600, 4_000, 20_000)))


def walk(seed: int, shape: str, edits: int) -> Walk:
    pools, teams, jobs, pause = SHAPES[shape]
    book = Walk(seed, pools, teams, jobs)
    book.fill()
    prices = set()
    while book.steps < edits:
        for _ in range(book.rng.randrange(1, 2 * pause)):
            book.step()
        prices.add(book.edited.check().reference_price_micro)
    assert {None, 0} < prices, "absent, zero and positive prices occurred"
    return book


@pytest.mark.parametrize("shape", SHAPES)
def test_after_a_thousand_edits_a_book_clears_as_if_it_were_new(
    shape: str, global_random_seed: int
) -> None:
    walk(global_random_seed, shape, 1_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("shape", SHAPES)
def test_after_twenty_thousand_edits_a_book_clears_as_if_it_were_new(
    shape: str, global_random_seed: int
) -> None:
    walk(global_random_seed, shape, 20_000)


def test_the_large_walk_reaches_windows_that_hold_a_part_of_the_rows(
    global_random_seed: int,
) -> None:
    book = walk(global_random_seed, "narrow windows", 400).edited.book
    _, windows = book._kernel.effort
    assert len(book) > 4_096
    assert windows > 3, "pools with more than 1,024 rows were read through windows"
