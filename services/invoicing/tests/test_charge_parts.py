"""Charges over the borders of periods: each part is on the invoice of the period it lies in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.invoicing.tests.invoice_story import Story
from services.invoicing.tests.invoicing_bench import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    UNITS,
    Bench,
    ask,
    charge,
    credit,
    payables_micro,
    pending,
    pool,
)
from walras_contracts.accounts import AccountsChanged, BillingPeriod
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.invoices import InvoiceAction, InvoiceLineKind, InvoicePublished
from walras_contracts.quantities import PPM
from walras_contracts.registry import decode_inner
from walras_invoicing import charging
from walras_invoicing.calendar import PoolCalendar
from walras_invoicing.charge_parts import ChargePart, parts_of
from walras_runtime.errors import InvariantBrokenError
from walras_runtime.records import Output

Told = tuple[str, int | None, int, int, int]
"""Kind, price, amount in µcr, charges, length in minutes."""


def told(invoice: InvoicePublished) -> list[Told]:
    return [
        (
            line.kind.value,
            line.price_micro,
            line.amount_micro,
            line.charges,
            (line.last_ms - line.first_ms) // MINUTE_MS,
        )
        for line in invoice.lines
    ]


def line_of(output: Output) -> ChargeRated | ChargeCredited:
    event = decode_inner(output.type, output.payload or b"")
    assert isinstance(event, ChargeRated | ChargeCredited)
    return event


def calendar(period: BillingPeriod, zone: str) -> PoolCalendar:
    held = PoolCalendar()
    document = pool(period=period, zone=zone)
    change = decode_inner(document.type, document.payload or b"")
    assert isinstance(change, AccountsChanged)
    held.put(change)
    return held


def hours() -> Bench:
    """A pool that is invoiced by the hour, each hour as soon as it has ended."""
    bench = Bench()
    bench.step(0, pool(period=BillingPeriod.HOUR, grace_ms=0))
    return bench


FREE = charge(59 * MINUTE_MS, 0, price=0, macc=3600, length_ms=2 * MINUTE_MS)
PAID = charge(59 * MINUTE_MS, 0, price=10**6, macc=3600, length_ms=2 * MINUTE_MS)
"""3.6 accelerators at 1 credit an hour: 60,000 µcr a minute."""
LATE = charge(HOUR_MS, 0, price=10**6, previous=0, corrects=True, macc=3600, length_ms=MINUTE_MS)


def test_a_late_price_from_the_border_on_corrects_the_part_behind_it() -> None:
    bench = hours()
    bench.step(59 * MINUTE_MS, FREE)
    bench.step(HOUR_MS - 1)
    bench.step(62 * MINUTE_MS, LATE)
    bench.step(2 * HOUR_MS)
    assert told(bench.invoice(0)) == [("usage", 0, 0, 1, 1)]
    assert told(bench.invoice(HOUR_MS)) == [("usage", 10**6, 60_000, 1, 1)]


def test_the_part_before_the_border_is_late_alone() -> None:
    bench = hours()
    bench.step(HOUR_MS)
    bench.step(62 * MINUTE_MS, PAID)
    assert told(bench.invoice(HOUR_MS)) == [
        ("usage", 10**6, 60_000, 0, 1),
        ("correction", None, 60_000, 1, 1),
    ]


def test_a_credit_over_a_border_gives_back_on_both_invoices() -> None:
    bench = hours()
    back = credit(59 * MINUTE_MS, -UNITS * 120_000, length_ms=2 * MINUTE_MS)
    bench.step(59 * MINUTE_MS, PAID, back)
    for at_ms, count in ((0, 1), (HOUR_MS, 0)):
        assert told(bench.invoice(at_ms)) == [
            ("usage", 10**6, 60_000, count, 1),
            ("credit", None, -60_000, count, 1),
        ]


def test_a_void_moves_the_part_of_its_period_and_no_other() -> None:
    bench = hours()
    bench.step(59 * MINUTE_MS, PAID)
    bench.step(HOUR_MS)
    bench.step(70 * MINUTE_MS, ask(bench.invoice(0), InvoiceAction.VOID))
    assert told(bench.invoice(HOUR_MS)) == [
        ("usage", 10**6, 60_000, 0, 1),
        ("correction", None, 60_000, 1, 1),
    ]
    assert payables_micro([bench.invoice(0), bench.invoice(HOUR_MS)]) == 120_000


def test_use_that_waits_for_its_price_is_told_where_it_lies() -> None:
    bench = hours()
    waiting = pending(59 * MINUTE_MS, 7, length_ms=3 * MINUTE_MS)
    both = [charge(0, UNITS), charge(HOUR_MS, UNITS)]
    bench.step(59 * MINUTE_MS, waiting, *both)
    assert [bench.invoice(at_ms).pending_macc_ms for at_ms in (0, HOUR_MS)] == [
        str(7 * MINUTE_MS),
        str(2 * 7 * MINUTE_MS),
    ]


CALENDARS = [
    calendar(period, zone)
    for period in BillingPeriod
    for zone in ("UTC", "Asia/Kolkata", "Europe/Budapest", "Australia/Lord_Howe")
]


@given(
    held=st.sampled_from(CALENDARS),
    span=st.tuples(st.integers(0, 400 * DAY_MS), st.integers(1, DAY_MS)),
    prices=st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)),
    macc=st.integers(1, 10**6),
)
def test_parts_cover_a_line_and_sum_to_its_amount_and_each_lies_in_one_period(
    held: PoolCalendar, span: tuple[int, int], prices: tuple[int, int], macc: int
) -> None:
    (start_ms, length_ms), (price, previous) = span, prices
    line = line_of(
        charge(start_ms, 0, price=price, previous=previous, macc=macc, length_ms=length_ms)
    )
    parts = parts_of(line, held)
    marks = [line.start_ms, *(part.end_ms for part in parts)]
    assert [part.start_ms for part in parts] == marks[:-1]
    assert marks[-1] == line.end_ms
    assert marks == sorted(set(marks))
    assert sum(part.numerator for part in parts) == int(line.amount_numerator)
    assert [part.charges for part in parts] == [1] + [0] * (len(parts) - 1)
    for part in parts:
        assert part.period.start_ms <= part.start_ms < part.end_ms <= part.period.end_ms
        assert part.numerator == (price - previous) * PPM * macc * (part.end_ms - part.start_ms)
    periods = [part.period.start_ms for part in parts]
    assert len(set(periods)) == len(periods), "none is cut within a period"


def test_an_amount_that_is_not_so_much_a_millisecond_is_a_broken_invariant() -> None:
    over = credit(HOUR_MS - 2, -5, length_ms=3)
    held = calendar(BillingPeriod.HOUR, "UTC")
    with pytest.raises(InvariantBrokenError, match="cannot be cut"):
        parts_of(line_of(over), held)
    within = line_of(credit(HOUR_MS - 3, -5, length_ms=3))
    assert [part.numerator for part in parts_of(within, held)] == [-5]


def test_the_stories_have_all_lines_over_borders_and_use_of_the_own_period_alone() -> None:
    """So what ``test_totals`` checks of stories is checked of lines over borders, too."""
    over: list[ChargeRated | ChargeCredited] = []
    ends_alone = 0
    for seed in range(3):
        story = Story(seed)
        bench = story.live()
        outputs = [output for _, given in story.given for output in given]
        lines = [line_of(o) for o in outputs if o.topic == "charges" and o.payload is not None]
        over += [e for e in lines if (e.end_ms - 1) // DAY_MS > e.start_ms // DAY_MS]
        for invoice in bench.latest().values():
            for line in invoice.lines:
                if line.kind is InvoiceLineKind.USAGE:
                    assert invoice.start_ms <= line.first_ms < line.last_ms <= invoice.end_ms
                    ends_alone += line.charges == 0
    rated = [e for e in over if isinstance(e, ChargeRated)]
    assert len(rated) < len(over), "credits"
    assert {e.corrects is None for e in rated} == {True, False}
    assert ends_alone > 0


def test_canary_a_charge_that_is_not_cut_is_on_the_wrong_invoice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def whole(line: ChargeRated | ChargeCredited, held: PoolCalendar) -> list[ChargePart]:
        period = held.period(line.start_ms)
        return [ChargePart(period, line.start_ms, line.end_ms, int(line.amount_numerator), 1)]

    monkeypatch.setattr(charging, "parts_of", whole)
    with pytest.raises(AssertionError):
        test_a_late_price_from_the_border_on_corrects_the_part_behind_it()
    with pytest.raises(AssertionError):
        test_a_credit_over_a_border_gives_back_on_both_invoices()
