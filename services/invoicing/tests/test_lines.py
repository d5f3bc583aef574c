"""Lines of invoices: whole amounts by largest remainder, and how many there may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_contracts.invoices import LINES_MAX, InvoiceLineKind
from walras_invoicing.lines import (
    WITHOUT_JOBS,
    WITHOUT_PRICES,
    WITHOUT_TEAMS,
    Line,
    LineBook,
    LineKey,
    amounts_micro,
    as_events,
    carries,
)
from walras_invoicing.rounding import UNITS_PER_MICRO, rounded_micro, shared_out
from walras_runtime.errors import InvariantBrokenError

KINDS = [kind.value for kind in InvoiceLineKind]


def key(kind: str = "usage", price: int | None = 1, job: str | None = "j") -> LineKey:
    return LineKey(kind, "t", job, "m", "market", price, 0)


def line(numerator: int, macc_ms: int = 1) -> Line:
    return Line(0, 1, macc_ms, 1, numerator)


def micro(hundredths_of_percent: int) -> int:
    """Units of so many ten-thousandths of a µcr."""
    return UNITS_PER_MICRO * hundredths_of_percent // 10_000


def test_o9_three_lines_of_a_third_sum_to_the_total_and_a_credit_keeps_its_own() -> None:
    # The unit of the invoice is a cent here: three lines of exactly 33.33, and a credit of 20.
    third = 33 * UNITS_PER_MICRO + micro(3300)
    lines = [
        (key(job="a"), line(third)),
        (key(job="b"), line(third)),
        (key("credit", None), line(-20 * UNITS_PER_MICRO)),
        (key(job="c"), line(third)),
    ]
    total = sum(item.numerator for _, item in lines)
    assert amounts_micro(lines, rounded_micro(total)) == [34, 33, -20, 33]


def test_half_a_unit_is_rounded_to_the_even_one_and_stands_on_the_first_line() -> None:
    halves = [micro(5000), micro(2500), micro(7500)]
    assert rounded_micro(sum(halves)) == 2
    assert shared_out(2, halves) == [1, 0, 1]
    assert rounded_micro(micro(5000)) == 0


@given(
    numerators=st.lists(st.integers(-(10**22), 10**22), min_size=1, max_size=9),
    off=st.integers(-3, 3),
)
def test_shares_sum_to_the_total_and_each_is_next_to_its_exact_amount(
    numerators: list[int], off: int
) -> None:
    total = rounded_micro(sum(numerators)) + off
    shares = shared_out(total, numerators)
    assert sum(shares) == total
    spread = abs(off) + 1
    for share, numerator in zip(shares, numerators, strict=True):
        assert abs(share * UNITS_PER_MICRO - numerator) <= spread * UNITS_PER_MICRO
    lost = [
        numerator - share * UNITS_PER_MICRO
        for share, numerator in zip(shares, numerators, strict=True)
    ]
    assert max(lost) - min(lost) <= UNITS_PER_MICRO, "nobody lost more than a unit beside another"


@given(
    lines=st.lists(
        st.tuples(st.sampled_from(KINDS), st.integers(-(10**18), 10**18)), min_size=1, max_size=8
    )
)
def test_whole_amounts_always_sum_to_what_is_payable(lines: list[tuple[str, int]]) -> None:
    held = [
        (key(kind, job=f"j{at}"), line(0 if kind == "unbilled" else numerator))
        for at, (kind, numerator) in enumerate(lines)
    ]
    if not carries(item for item, _ in held):
        assert amounts_micro(held, 0) == [0] * len(held)
        return
    payable = rounded_micro(sum(item.numerator for _, item in held)) + 1
    amounts = amounts_micro(held, payable)
    assert sum(amounts) == payable
    for (name, item), amount in zip(held, amounts, strict=True):
        if name.kind == "unbilled":
            assert amount == 0
        elif name.kind == "credit" and any(k.kind in {"usage", "correction"} for k, _ in held):
            assert amount == rounded_micro(item.numerator)


def test_too_many_prices_are_left_out_then_too_many_jobs_and_the_sums_stay() -> None:
    book = LineBook()
    for price in range(LINES_MAX):
        book.add(key(price=price), line(price))
    assert not book.bound(WITHOUT_JOBS)
    book.add(key(price=LINES_MAX), line(LINES_MAX))
    assert book.bound(WITHOUT_JOBS)
    assert (book.detail, len(book.lines)) == (WITHOUT_PRICES, 1)
    (only,) = book.lines.values()
    assert (only.macc_ms, only.charges) == (LINES_MAX + 1, LINES_MAX + 1)
    assert book.numerator == only.numerator == LINES_MAX * (LINES_MAX + 1) // 2

    for number in range(LINES_MAX):
        book.add(key(job=f"j{number}", price=7), line(1))
    assert book.bound(WITHOUT_JOBS)
    assert [item.job for item in book.lines] == [None]
    assert sum(e.charges for e in as_events(book.ordered(), [0])) == 2 * LINES_MAX + 1


def test_a_pools_lines_leave_out_the_teams_at_last() -> None:
    book = LineBook()
    for number in range(LINES_MAX + 1):
        book.add(key(job=None)._replace(team=f"t{number}"), line(1))
    assert book.bound(WITHOUT_TEAMS)
    ((name, item),) = book.ordered()
    assert (name.team, item.charges) == (None, LINES_MAX + 1)


def test_lines_come_back_from_the_state_topic_as_they_were() -> None:
    book = LineBook()
    book.add(key("correction", None, None), line(-5))
    book.add(key(price=3), line(9))
    book.add(key(price=4), line(9))
    book.add(key(price=4), Line(0, 1, -1, 0, -9))
    again = LineBook()
    for name, value in book.take_changes():
        if value is not None:
            again.load(name, value)
    assert again.lines == book.lines
    assert len(again.lines) == 2
    assert [*book.take_changes()] == []


def test_taking_back_more_than_was_charged_is_a_broken_invariant() -> None:
    with pytest.raises(InvariantBrokenError, match="more was taken back"):
        LineBook().add(key(), line(-1, macc_ms=-1))
