"""Lines of invoices: their sums, and whole amounts by largest remainder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walras_contracts.invoices import InvoiceLineKind
from walras_invoicing.lines import Line, LineBook, LineKey, amounts_micro, carries
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


def test_lines_come_back_from_the_state_topic_as_they_were() -> None:
    book = LineBook()
    book.add(key("correction", None, None), line(-5))
    book.add(key(price=3), line(9))
    book.add(key(price=4), line(9))
    book.add(key(price=4), Line(0, 1, -1, 0, -9))
    book.add(LineKey("usage", "t", None, None, None, None, None), line(7))
    again = LineBook()
    for name, value in book.take_changes():
        if value is not None:
            again.load(name, value)
    assert again.lines == book.lines
    assert len(again.lines) == 3
    assert [*book.take_changes()] == []


def test_taking_back_more_than_was_charged_is_a_broken_invariant() -> None:
    with pytest.raises(InvariantBrokenError, match="more was taken back"):
        LineBook().add(key(), line(-1, macc_ms=-1))
