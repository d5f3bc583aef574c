"""What a book refuses changes nothing in it, of one value or of many at once."""

from collections.abc import Callable

import numpy as np
import pytest

from libs.clearing.tests.edited_book import a_book, numbers
from walras_clearing import Book
from walras_clearing.arrays import NO_LIMIT


def bulk(book: Book, key: int = 4, team: int = 1, size: int = 5, limit: int = 5) -> None:
    """Three jobs: one is known and would change, one is new, and the last is as asked."""
    book.upsert_jobs([1, 5, key], [2, 0, team], [999, 7, size], [1, 2, limit])


def beyond_all_sums(book: Book) -> None:
    count = 1_001
    book.upsert_jobs(np.arange(count), [0] * count, [10**15] * count, [5] * count)


Refused = Callable[[Book], None]
REFUSED: dict[str, tuple[Refused, str]] = {
    "an unknown team": (lambda book: book.upsert_job(1, 3, 5, 5), "unknown_team"),
    "a negative team": (lambda book: book.upsert_job(1, -1, 5, 5), "negative"),
    "a key beyond the bound": (lambda book: book.upsert_job(2**27, 0, 5, 5), "above_maximum"),
    "a negative key": (lambda book: book.upsert_job(-1, 0, 5, 5), "negative"),
    "a size": (lambda book: book.upsert_job(1, 0, 10**15 + 1, 5), "above_maximum"),
    "a limit": (lambda book: book.upsert_job(1, 0, 5, 10**12 + 1), "above_maximum"),
    "a limit in column form": (lambda book: book.upsert_job(1, 0, 5, NO_LIMIT), "above_maximum"),
    "a float size": (lambda book: book.upsert_job(1, 0, 5.0, 5), "not_an_integer"),  # type: ignore[arg-type]
    "one bad team of many": (lambda book: bulk(book, team=3), "unknown_team"),
    "one bad size of many": (lambda book: bulk(book, size=-1), "negative"),
    "one large size of many": (lambda book: bulk(book, size=10**15 + 1), "above_maximum"),
    "one bad limit of many": (lambda book: bulk(book, limit=10**12 + 1), "above_maximum"),
    "one negative limit of many": (lambda book: bulk(book, limit=-1), "negative"),
    "one bad key of many": (lambda book: bulk(book, key=2**27), "above_maximum"),
    "more than a book can hold": (beyond_all_sums, "sum_above_maximum"),
    "columns of two lengths": (
        lambda book: book.upsert_jobs([1, 2], [0, 0], [5], [5, 5]),
        "wrong_length",
    ),
    "an unknown job": (lambda book: book.remove_job(4), "unknown_job"),
    "a key never seen": (lambda book: book.remove_job(2**27 - 1), "unknown_job"),
    "one unknown job of many": (lambda book: book.remove_jobs([1, 4, 2]), "unknown_job"),
    "a job twice": (lambda book: book.remove_jobs([1, 2, 1]), "duplicate_id"),
    "a bid beyond the sum": (lambda book: book.set_bid(0, 10**15 - 6), "sum_above_maximum"),
    "a bid": (lambda book: book.set_bid(0, 10**15 + 1), "above_maximum"),
    "a bid of nobody": (lambda book: book.set_bid(3, 5), "unknown_team"),
    "bids beyond the sum": (lambda book: book.set_bids([1, 5, 10**15]), "sum_above_maximum"),
    "too few bids": (lambda book: book.set_bids([1, 5]), "wrong_length"),
    "a negative bid": (lambda book: book.set_bids([1, 5, -1]), "negative"),
    "fewer teams": (lambda book: book.set_teams([0, 1]), "wrong_length"),
    "a pool that is not there": (lambda book: book.set_teams([0, 1, 2]), "unknown_pool"),
    "an order that leaves one out": (
        lambda book: book.set_teams([0, 1, 0], [0, 1, 1]),
        "duplicate_id",
    ),
    "an order of too few": (lambda book: book.set_teams([0, 1, 0], [0, 1]), "wrong_length"),
    "supply beyond the sum": (
        lambda book: book.set_supply(10**15, [1, 0]),
        "sum_above_maximum",
    ),
    "supply of a third pool": (lambda book: book.set_supply(1, [1, 0, 0]), "wrong_length"),
    "weights of one pool": (lambda book: book.set_pool_weights([1]), "wrong_length"),
    "a policy nobody knows": (
        lambda book: book.set_policies(
            reserve_price_micro=5,
            idle_own_supply="burn",  # type: ignore[arg-type]
            margin="pro_rata",
        ),
        "unknown_policy",
    ),
}


@pytest.mark.parametrize(("edit", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_edit_leaves_the_book_as_it_was(edit: Refused, code: str) -> None:
    edited = a_book(24)
    with pytest.raises(ValueError, match=rf"\[{code}\]$"):
        edit(edited.book)
    edited.check()


def test_bids_of_teams_that_move_into_one_pool_are_summed_there() -> None:
    edited = a_book(24)
    edited.bid_all(np.array([10**15 - 7, 10**15, 7], np.int64))
    edited.check()
    with pytest.raises(ValueError, match="sum_above_maximum"):
        edited.book.set_teams(numbers([0, 0, 0]))
    edited.check()
