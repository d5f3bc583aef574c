"""A book under any sequence of edits holds what was put in, and clears as a cold market does."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from libs.clearing.tests.edited_book import EditedBook, a_book, numbers
from walras_clearing import Book, MarketArrays, clear_arrays
from walras_clearing.arrays import NO_LIMIT
from walras_clearing.testing_columns import differences

KEYS = 24
SIZES = st.sampled_from((0, 1, 350, 700, 1000)) | st.integers(0, 5000)
LIMITS = st.sampled_from((None, 0, 1, 2, 40)) | st.integers(0, 3000)
BIDS = st.sampled_from((0, 1, 2, 900)) | st.integers(0, 10**6)
SUPPLIES = st.sampled_from((0, 350)) | st.integers(0, 9000)


class EditedBooks(RuleBasedStateMachine):
    """Edits of a small book: all kinds, in any order, with the values that make ties."""

    edited: EditedBook

    @initialize(pools=st.integers(0, 3))
    def start(self, pools: int) -> None:
        self.edited = EditedBook(pools, KEYS)

    def team(self, data: st.DataObject) -> int:
        return data.draw(st.integers(0, self.edited.teams - 1), label="team")

    def has_teams(self) -> bool:
        return self.edited.teams > 0

    @precondition(lambda self: self.edited.pools > 0)
    @rule(more=st.integers(0, 3), data=st.data(), ordered=st.booleans())
    def set_teams(self, more: int, data: st.DataObject, ordered: bool) -> None:
        count = self.edited.teams + more
        pool = st.integers(0, self.edited.pools - 1)
        pools = data.draw(st.lists(pool, min_size=count, max_size=count), label="pools")
        order = None
        if ordered:
            order = numbers(data.draw(st.permutations(range(count)), label="order"))
        self.edited.arrange(numbers(pools), order)

    @precondition(has_teams)
    @rule(data=st.data(), job=st.integers(0, KEYS - 1), size=SIZES, limit=LIMITS)
    def upsert_job(self, data: st.DataObject, job: int, size: int, limit: int | None) -> None:
        self.edited.put(job, self.team(data), size, limit)

    @precondition(has_teams)
    @rule(data=st.data(), jobs=st.lists(st.integers(0, KEYS - 1), max_size=12))
    def upsert_jobs(self, data: st.DataObject, jobs: list[int]) -> None:
        rows = [(self.team(data), data.draw(SIZES), data.draw(LIMITS)) for _ in jobs]
        self.edited.put_all(
            numbers(jobs),
            numbers([team for team, _, _ in rows]),
            np.array([size for _, size, _ in rows], np.int64),
            np.array([NO_LIMIT if limit is None else limit for _, _, limit in rows], np.int64),
        )

    @rule(data=st.data())
    def remove_jobs(self, data: st.DataObject) -> None:
        held = self.edited.keys_held().tolist()
        if held:
            chosen = st.lists(st.sampled_from(held), unique=True)
            self.edited.take_all(numbers(data.draw(chosen, label="jobs")))

    @precondition(has_teams)
    @rule(data=st.data(), bid=BIDS)
    def set_bid(self, data: st.DataObject, bid: int) -> None:
        self.edited.bid(self.team(data), bid)

    @rule(data=st.data())
    def set_bids(self, data: st.DataObject) -> None:
        count = self.edited.teams
        bids = data.draw(st.lists(BIDS, min_size=count, max_size=count), label="bids")
        self.edited.bid_all(np.array(bids, np.int64))

    @rule(data=st.data(), shared=SUPPLIES)
    def set_supply(self, data: st.DataObject, shared: int) -> None:
        count = self.edited.pools
        own = data.draw(st.lists(SUPPLIES, min_size=count, max_size=count), label="own")
        self.edited.supply(shared, np.array(own, np.int64))

    @rule(data=st.data())
    def set_weights(self, data: st.DataObject) -> None:
        count = self.edited.pools
        weights = st.lists(st.integers(0, 2), min_size=count, max_size=count)
        self.edited.weights(np.array(data.draw(weights, label="weights"), np.int64))

    @rule(
        reserve=st.sampled_from((0, 0, 1, 40)),
        idle=st.sampled_from(("keep", "lend")),
        margin=st.sampled_from(("pro_rata", "strict_order")),
    )
    def set_policies(self, reserve: int, idle: str, margin: str) -> None:
        self.edited.policy(reserve_price_micro=reserve, idle_own_supply=idle, margin=margin)

    @invariant()
    def the_book_holds_what_was_put_in_and_clears_like_a_new_one(self) -> None:
        self.edited.check()


@pytest.mark.timeout(1800)
def test_any_edits_in_any_order_clear_like_a_new_market() -> None:
    # The profile says how many examples; each is a sequence of up to fifty edits.
    run_state_machine_as_test(EditedBooks, settings=settings(stateful_step_count=50))


def test_an_edit_that_is_lost_would_be_caught() -> None:
    """Canary of this file: the columns see what the book was not told."""
    edited = a_book(KEYS)
    edited.size[1] += 1
    with pytest.raises(AssertionError):
        edited.check()


# Shapes that are easy to forget.


@pytest.mark.parametrize("pools", [0, 1, 3])
def test_a_book_without_teams_or_jobs_clears(pools: int) -> None:
    edited = EditedBook(pools, KEYS)
    edited.check()
    edited.supply(70, np.full(pools, 30, np.int64))
    edited.check()
    assert len(edited.book) == 0


def test_a_job_that_changes_teams_leaves_the_first_one() -> None:
    edited = a_book(KEYS)
    edited.put(1, 2, 400, 50)
    edited.check()
    assert len(edited.book) == 4
    assert edited.book.market().team_of_job.tolist() == [0, 1, 2, 2]


def test_a_key_is_free_again_once_its_job_is_gone() -> None:
    edited = a_book(KEYS)
    edited.book.remove_job(2)
    edited.team[2] = -1
    edited.check()
    edited.put(2, 0, 800, 3)
    edited.check()


def test_a_key_that_occurs_twice_counts_once_with_its_last_values() -> None:
    """Also where the book is empty, and takes the columns in one go."""
    for edited in (a_book(KEYS), EditedBook(1, KEYS)):
        edited.arrange(numbers([0, 0, 0]), None)
        edited.put_all(
            numbers([5, 6, 5]),
            numbers([0, 1, 2]),
            np.array([6 * 10**14, 1, 3 * 10**14], np.int64),
            np.array([10, 11, 12], np.int64),
        )
        edited.check()


def test_bags_that_grow_by_one_job_at_a_time_move_and_are_packed() -> None:
    """Many teams whose jobs arrive in turns: bags move often, and most of the arena is waste."""
    edited = EditedBook(1, 6_000)
    edited.arrange(np.zeros(40, np.int32), None)
    edited.supply(10**6, np.array([0], np.int64))
    edited.bid_all(np.full(40, 10**6, np.int64))
    for job in range(3_000):
        edited.put(job, job % 40, 1000 + job, job % 977)
    edited.check()
    edited.take_all(np.arange(0, 3_000, 2, dtype=np.int32))
    edited.check()
    for job in range(3_000, 6_000):
        edited.put(job, 39 - job % 7, 1000, job % 977)
    edited.check()


def test_a_team_that_grows_job_by_job_writes_over_no_neighbour() -> None:
    """Its steps lie between those of others, with room for some more: every count is tried."""
    edited = EditedBook(1, 300)
    edited.arrange(np.zeros(3, np.int32), None)
    edited.supply(40_000, np.array([700], np.int64))
    edited.bid_all(np.array([900, 900, 900], np.int64))
    for job in range(9):
        edited.put(job, job % 3, 9000, 60 + job)
    edited.check()
    for job in range(9, 120):
        edited.put(job, 0, 500, 1 + 37 * job % 120)
        # Bids move the price to and fro, so that the neighbours are read anew at other steps.
        edited.bid_all(np.array([900 + 40 * (job % 7), 2000 - 90 * (job % 11), 500], np.int64))
        edited.check()


def test_a_book_that_was_emptied_takes_new_jobs_in_one_go() -> None:
    edited = a_book(KEYS)
    edited.take_all(numbers([1, 2, 3, 9]))
    edited.check()
    for rows in (3, 1):
        edited.put_all(
            np.arange(rows, dtype=np.int32),
            np.arange(rows, dtype=np.int32),
            np.full(rows, 900, np.int64),
            np.full(rows, 41, np.int64),
        )
        edited.check()
        edited.put(7, 1, 5, None)
        edited.check()
        edited.take_all(edited.keys_held().astype(np.int32))


def test_a_cleared_book_clears_to_the_same_again() -> None:
    edited = a_book(KEYS)
    first = edited.book.clear()
    assert differences(first, edited.book.clear()) == []


def test_jobs_beyond_the_range_in_sum_may_be_held_but_not_cleared() -> None:
    edited = a_book(KEYS)
    before = edited.book.clear()
    edited.book.upsert_job(20, 0, 10**15, None)
    with pytest.raises(ValueError, match="sum_above_maximum"):
        edited.book.clear()
    edited.book.remove_job(20)
    assert differences(before, edited.book.clear()) == []


# What the caller does with its columns afterwards, or with ours, is its own business.


def test_the_book_keeps_copies_of_the_columns_it_is_given() -> None:
    book = Book(2)
    columns: dict[str, Any] = {
        "pool_of": numbers([0, 1, 1]),
        "order": numbers([2, 1, 0]),
        "own": np.array([500, 0], np.int64),
        "weight": np.array([1, 2], np.int64),
        "bids": np.array([9, 8, 7], np.int64),
        "jobs": numbers([0, 1, 2]),
        "teams": numbers([2, 1, 0]),
        "sizes": np.array([1000, 2000, 3000], np.int64),
        "limits": np.array([5, 6, NO_LIMIT], np.int64),
    }
    book.set_teams(columns["pool_of"], columns["order"])
    book.set_supply(900, columns["own"])
    book.set_pool_weights(columns["weight"])
    book.set_bids(columns["bids"])
    book.upsert_jobs(columns["jobs"], columns["teams"], columns["sizes"], columns["limits"])
    before, result = book.market(), book.clear()
    for column in columns.values():
        column[:] = 0
    for column in market_columns(book.market()).values():
        column[:] = 0
    assert same_market(before, book.market())
    assert differences(result, book.clear()) == []
    assert differences(result, clear_arrays(before)) == []


def market_columns(market: MarketArrays) -> dict[str, Any]:
    values = {field.name: getattr(market, field.name) for field in fields(MarketArrays)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def same_market(one: MarketArrays, other: MarketArrays) -> bool:
    ours, theirs = market_columns(one), market_columns(other)
    return all(np.array_equal(column, theirs[name]) for name, column in ours.items())
