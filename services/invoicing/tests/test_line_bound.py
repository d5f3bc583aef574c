"""How many lines an invoice has: never more than fit, whatever is charged, and the sums stay."""

import random
from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.invoicing.tests.invoicing_bench import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    START_MS,
    UNITS,
    Bench,
    charge,
    payables_micro,
    pool,
)
from walras_contracts.accounts import BillingPeriod
from walras_contracts.invoices import LINES_MAX, InvoiceLineKind, InvoicePublished
from walras_contracts.work import WorkClass
from walras_invoicing import lines
from walras_invoicing.lines import POOL_ORDER, TEAM_ORDER, Line, LineBook, LineKey, as_events
from walras_runtime.records import Output

KINDS = [kind.value for kind in InvoiceLineKind]
CLASSES = [each.value for each in WorkClass]
RECORD_BYTES_MAX = 1_048_576
"""What a broker takes."""
FULL = LineKey("usage", "t", "j", "m", "market", 1, 0)
Sums = tuple[int, int, int, int, int, int]


def sums_by_kind(book: LineBook) -> dict[str, Sums]:
    """First and last ms, macc·ms, charges, numerator and count of books, of each kind."""
    found = {}
    for kind in KINDS:
        same = [line for key, line in book.lines.items() if key.kind == kind]
        if same:
            found[kind] = (
                min(line.first_ms for line in same),
                max(line.last_ms for line in same),
                sum(line.macc_ms for line in same),
                sum(line.charges for line in same),
                sum(line.numerator for line in same),
                1,
            )
    return found


def many(name: str) -> list[LineKey]:
    """Keys that differ in one name alone, and are one more than fit."""
    numbers = range(LINES_MAX + 1)
    is_number = name in {"price_micro", "period_start_ms"}
    values = [number if is_number else f"{name}-{number}" for number in numbers]
    return [with_value(name, value) for value in values]


def with_value(name: str, value: Any) -> LineKey:
    changes: dict[str, Any] = {name: value}
    return FULL._replace(**changes)


@pytest.mark.parametrize("order", [TEAM_ORDER, POOL_ORDER])
def test_as_many_lines_as_fit_leave_out_nothing(order: tuple[str, ...]) -> None:
    for name in set(order) - {"work_class"}:
        book = LineBook(order=order)
        for key in many(name)[:-1]:
            book.add(key, Line(0, 1, 1, 1, 1))
        assert not book.bound()
        assert (book.detail, len(book.lines)) == (0, LINES_MAX)


@pytest.mark.parametrize(
    ("order", "name"),
    [(order, name) for order in (TEAM_ORDER, POOL_ORDER) for name in order if name != "work_class"],
)
def test_of_too_many_all_names_up_to_the_one_that_makes_them_many_are_left_out(
    order: tuple[str, ...], name: str
) -> None:
    book = LineBook(order=order)
    for number, key in enumerate(many(name)):
        book.add(key, Line(number, number + 1, 2, 1, number))
    assert book.bound()
    place = order.index(name) + 1
    kept = FULL.without(order[:place])
    ((only, line),) = book.lines.items()
    assert (only, book.detail) == (kept, place)
    count = LINES_MAX + 1
    assert line == Line(0, count, 2 * count, count, count * (count - 1) // 2)
    assert book.numerator == line.numerator


def test_classes_are_left_out_where_they_multiply_what_does_not_fit() -> None:
    book = LineBook()
    markets = [f"m{number}" for number in range(LINES_MAX // 2)]
    for market, work_class in product(markets, CLASSES):
        book.add(FULL._replace(market=market, work_class=work_class), Line(0, 1, 1, 1, 1))
    assert book.bound()
    assert {key.work_class for key in book.lines} == {None}
    assert {key.market for key in book.lines} == {*markets}


@settings(deadline=None, max_examples=60)
@given(
    order=st.sampled_from((TEAM_ORDER, POOL_ORDER)),
    seed=st.integers(0, 2**32),
    wide=st.tuples(*[st.sampled_from((1, 2, 40))] * 6),
    lines_max=st.integers(len(KINDS), 30),
)
def test_there_are_never_more_lines_than_fit_nothing_is_lost_and_no_more_is_left_out_than_must_be(
    order: tuple[str, ...], seed: int, wide: tuple[int, ...], lines_max: int
) -> None:
    draw = random.Random(seed)
    team = 1 if order is TEAM_ORDER else wide[0]
    books = [LineBook(order=order) for _ in range(3)]
    bounded, once, free = books
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "LINES_MAX", lines_max)
        for number in range(120):
            key = LineKey(
                draw.choice(KINDS),
                f"t{draw.randrange(team)}",
                draw.choice((None, f"j{draw.randrange(wide[1])}")),
                f"m{draw.randrange(wide[2])}",
                draw.choice(CLASSES[: wide[3]]),
                draw.choice((None, draw.randrange(wide[4]))),
                draw.randrange(wide[5]),
            )
            for book in books:
                book.add(key, Line(number, number + 1, draw.randrange(1, 9), 1, number))
            assert bounded.bound() <= (len(free.lines) > lines_max)
            assert len(bounded.lines) <= lines_max
        once.bound()
    assert (once.detail, once.lines.keys()) == (bounded.detail, bounded.lines.keys())
    if once.detail:
        finer = {key.without(order[: once.detail - 1]) for key in free.lines}
        assert len(finer) > lines_max
    assert sums_by_kind(bounded).keys() == sums_by_kind(free).keys()
    assert bounded.numerator == free.numerator == sum(e.numerator for e in free.lines.values())
    assert bounded.credit_numerator == free.credit_numerator


def test_lines_that_leave_all_out_are_lines_of_the_contract() -> None:
    book = LineBook(detail=len(POOL_ORDER), order=POOL_ORDER)
    for kind in KINDS:
        book.add(FULL._replace(kind=kind), Line(0, 1, 1, 1, 0))
    shown = as_events(book.ordered(), [0] * len(KINDS))
    assert [line.kind.value for line in shown] == KINDS
    for line in shown:
        left = (line.team, line.job, line.market, line.work_class, line.period_start_ms)
        assert left == (None,) * 5


def checked(bench: Bench, charged_micro: int, charges: int) -> dict[str, InvoicePublished]:
    """Return the open invoices, of the teams and the pool (""), after comparing their sums."""
    at_ms = max(start_ms for _, _, start_ms in bench.latest())
    found = {team: e for (_, team, start), e in bench.latest().items() if start == at_ms}
    of_pool, teams = found[""], [e for team, e in found.items() if team]
    for invoice in found.values():
        assert len(invoice.lines) <= LINES_MAX
        assert len(invoice.payload()) < RECORD_BYTES_MAX
    assert payables_micro(teams) == of_pool.payable_micro == charged_micro
    for invoices in ([of_pool], teams):
        held = [line for invoice in invoices for line in invoice.lines]
        assert sum(line.charges for line in held) == charges
        assert sum(int(line.amount_numerator) for line in held) == charged_micro * UNITS
    return found


def named(invoice: InvoicePublished) -> dict[str, bool]:
    """Which names the lines of an invoice still have."""
    names = ("price_micro", "job", "team", "period_start_ms", "work_class", "market")
    return {name: any(getattr(line, name) is not None for line in invoice.lines) for name in names}


def late(number: int, **names: Any) -> Output:
    """A charge of 1 µcr in one of very many hours, each of them due long ago."""
    work_class = [*WorkClass][number % 2]
    return charge(number * HOUR_MS, UNITS, work_class=work_class, **names)


@pytest.mark.parametrize("crash", [False, True])
def test_a_pool_of_very_many_teams_jobs_markets_and_periods_keeps_to_the_bound(
    crash: bool,
) -> None:
    count = LINES_MAX + 100
    bench = Bench(crash=crash)
    bench.step(0, pool(period=BillingPeriod.HOUR, grace_ms=0))
    now_ms = (count + 1) * HOUR_MS
    bench.step(now_ms)
    # Very many hours of one team.
    given = [late(number, job=f"j{number}") for number in range(count)]
    bench.step(now_ms + MINUTE_MS, *given)
    found = checked(bench, count, count)
    assert named(found["t1"]) == {
        "price_micro": False,
        "job": False,
        "team": True,
        "period_start_ms": False,
        "work_class": True,
        "market": True,
    }
    # And very many markets.
    given = [late(number, market=f"m{number}") for number in range(count)]
    bench.step(now_ms + 2 * MINUTE_MS, *given)
    bench.step(now_ms + HOUR_MS)
    (invoice,) = [e for e in bench.latest().values() if e.invoice_id == found["t1"].invoice_id]
    assert {name for name, is_there in named(invoice).items() if not is_there} == {*TEAM_ORDER}
    (line,) = invoice.lines
    assert (invoice.payable_micro, line.charges) == (2 * count, 2 * count)


def test_a_pool_of_very_many_teams_has_one_line_for_all_of_them() -> None:
    count = LINES_MAX + 1
    bench = Bench()
    given = [charge(0, UNITS, team=f"t{number}") for number in range(count)]
    bench.step(0, pool(), *given)
    found = checked(bench, count, count)
    (line,) = found[""].lines
    assert (line.team, line.market, line.period_start_ms) == (None, "m", START_MS)


def test_a_pool_of_very_many_teams_in_very_many_markets_leaves_out_the_markets_too() -> None:
    count = LINES_MAX + 1
    bench = Bench()
    given = [charge(0, UNITS, team=f"t{n}", market=f"m{n}") for n in range(count)]
    bench.step(0, pool(period=BillingPeriod.DAY), *given)
    found = checked(bench, count, count)
    (line,) = found[""].lines
    assert (line.team, line.market, line.work_class, line.period_start_ms) == (None,) * 4
    assert Counter(len(e.lines) for team, e in found.items() if team) == {1: count}
    bench.step(DAY_MS + HOUR_MS)
    assert bench.invoice(team="").payable_micro == count
