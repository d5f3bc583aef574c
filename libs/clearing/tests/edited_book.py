"""A `Book` and beside it plain columns that are edited the same way: what the book must hold."""

from typing import Any

import numpy as np

from walras_clearing import Book, ClearedArrays, MarketArrays, clear_arrays, verify_arrays
from walras_clearing.arrays import NO_LIMIT, Column, Numbers
from walras_clearing.testing_columns import differences

ABSENT = -1


class EditedBook:
    """Every edit goes to the book and to the columns; `check` compares them and what they clear to.

    Job keys are below `keys`.
    """

    def __init__(self, pools: int, keys: int) -> None:
        self.book = Book(pools)
        self.pools = pools
        self.team: Numbers = np.full(keys, ABSENT, np.int32)
        self.size: Column = np.zeros(keys, np.int64)
        self.limit: Column = np.zeros(keys, np.int64)
        self.bids: Column = np.zeros(0, np.int64)
        self.pool_of: Numbers = np.zeros(0, np.int32)
        self.order: Numbers | None = None
        self.weight: Column = np.zeros(pools, np.int64)
        self.own: Column = np.zeros(pools, np.int64)
        self.shared = 0
        self.policies: dict[str, Any] = {
            "reserve_price_micro": 0,
            "idle_own_supply": "keep",
            "margin": "pro_rata",
        }

    @property
    def teams(self) -> int:
        return len(self.bids)

    def keys_held(self) -> Column:
        return np.flatnonzero(self.team != ABSENT)

    # Edits.

    def policy(self, **policies: Any) -> None:
        self.policies |= policies
        self.book.set_policies(**self.policies)

    def supply(self, shared: int, own: Column) -> None:
        self.shared, self.own = shared, own
        self.book.set_supply(shared, own)

    def weights(self, weight: Column) -> None:
        self.weight = weight
        self.book.set_pool_weights(weight)

    def arrange(self, pool_of: Numbers, order: Numbers | None) -> None:
        bids = np.zeros(len(pool_of), np.int64)
        bids[: self.teams] = self.bids
        self.pool_of, self.order, self.bids = pool_of, order, bids
        self.book.set_teams(pool_of, order)

    def bid(self, team: int, bid: int) -> None:
        self.bids[team] = bid
        self.book.set_bid(team, bid)

    def bid_all(self, bids: Column) -> None:
        self.bids = bids
        self.book.set_bids(bids.copy())

    def put(self, job: int, team: int, size: int, limit: int | None) -> None:
        self.team[job], self.size[job] = team, size
        self.limit[job] = NO_LIMIT if limit is None else limit
        self.book.upsert_job(job, team, size, limit)

    def put_all(self, jobs: Numbers, teams: Numbers, sizes: Column, limits: Column) -> None:
        for job, team, size, limit in zip(jobs, teams, sizes, limits, strict=True):
            self.team[job], self.size[job], self.limit[job] = team, size, limit
        self.book.upsert_jobs(jobs, teams, sizes, limits)

    def take_all(self, jobs: Numbers) -> None:
        self.team[jobs] = ABSENT
        self.book.remove_jobs(jobs)

    # What must hold.

    def market(self) -> MarketArrays:
        held = self.keys_held()
        return MarketArrays(
            shared_supply_macc=self.shared,
            own_supply_macc=self.own,
            pool_weight=self.weight,
            pool_of_team=self.pool_of,
            bid_micro_per_hour=self.bids,
            team_of_job=self.team[held],
            size_macc=self.size[held],
            limit_micro=self.limit[held],
            team_order=self.order,
            **self.policies,
        )

    def check(self) -> ClearedArrays:
        """Clear; the book holds what the columns say, and clears as they do from cold."""
        expected = self.market()
        self.check_content(expected)
        result = self.book.clear()
        assert differences(result, clear_arrays(expected)) == []
        assert verify_arrays(expected, result) == ()
        return result

    def check_content(self, expected: MarketArrays) -> None:
        actual, keys = self.book.market(), self.book.job_keys()
        assert len(self.book) == len(keys) == len(expected.size_macc)
        order = np.argsort(keys)
        assert keys[order].tolist() == self.keys_held().tolist()
        for name in ("team_of_job", "size_macc", "limit_micro"):
            assert np.array_equal(getattr(actual, name)[order], getattr(expected, name)), name
        for name in ("own_supply_macc", "pool_weight", "pool_of_team", "bid_micro_per_hour"):
            assert np.array_equal(getattr(actual, name), getattr(expected, name)), name
        for name in ("shared_supply_macc", *self.policies):
            assert getattr(actual, name) == getattr(expected, name), name
        if expected.team_order is None:
            assert actual.team_order is None
        else:
            assert np.array_equal(actual.team_order, expected.team_order)  # type: ignore[arg-type]


def numbers(values: list[int]) -> Numbers:
    return np.array(values, np.int32)


def a_book(keys: int) -> EditedBook:
    """Two pools, three teams and four jobs, cleared once."""
    edited = EditedBook(2, keys)
    edited.arrange(numbers([0, 1, 0]), None)
    edited.supply(2000, np.array([500, 0], np.int64))
    edited.bid_all(np.array([900, 40, 7], np.int64))
    edited.put_all(
        numbers([1, 2, 3, 9]),
        numbers([0, 1, 2, 0]),
        np.array([1000, 2000, 3000, 50], np.int64),
        np.array([700, NO_LIMIT, 40, 0], np.int64),
    )
    edited.check()
    return edited
