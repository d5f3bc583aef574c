"""Invoices in the audit: charges over borders of periods, and lines that leave something out."""

from collections import Counter

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import walras_invoicing.lines
from cli.tests.audit_days import (
    MINUTE_MS,
    START_MS,
    Hours,
    MoneyWorld,
    changed,
    drain,
    pool,
    price,
    usage,
    written,
)
from walras.audit import AuditReport, audit, expected_invoices
from walras.audit.charge_parts import Part, parts_of
from walras.audit.incomes import Accounts
from walras.audit.invoice_periods import InvoicePeriods
from walras.audit.rows import RATED, RATED_FIELDS, Line
from walras_contracts.accounts import BillingPeriod
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.invoices import (
    LINES_MAX,
    InvoiceAction,
    InvoiceLine,
    InvoiceLineKind,
    InvoicePublished,
    InvoiceRequested,
    InvoiceState,
)
from walras_contracts.registry import decode_inner
from walras_contracts.work import DrainState
from walras_runtime.memory.log import MemoryLog
from walras_runtime.records import emit

HOUR = 60
"""Minutes."""
PROPERTY = settings(deadline=None, max_examples=4, phases=(Phase.explicit, Phase.generate))
SEED = st.integers(0, 2**32 - 1)
FEW_LINES = (3, 25)
"""So few that all invoices leave out all they can; that some leave out more than others."""


def audited(log: MemoryLog) -> AuditReport:
    report = audit(log)
    shown = "\n".join(str(difference) for difference in report.differences[:20])
    assert report.is_clean, shown
    return report


def long_records(seed: int) -> MemoryLog:
    """Hours of sources that say nothing for long, and then all in one record; prices are stable."""
    hours = Hours(seed, minutes=240, quiet_minutes=(4, 70, 130), price_odds=0.05)
    return hours.run(MoneyWorld()).log


def over_a_border(log: MemoryLog) -> list[ChargeRated | ChargeCredited]:
    """Charge lines of pool p, whose periods are full hours, that lie in more than one."""
    lines = []
    for _, _, entry in written(log, ChargeRated.TOPIC):
        line = decode_inner(entry.type, entry.payload or b"")
        assert isinstance(line, ChargeRated | ChargeCredited)
        hour_ms = HOUR * MINUTE_MS
        if line.pool == "p" and line.start_ms // hour_ms < (line.end_ms - 1) // hour_ms:
            lines.append(line)
    return lines


def a_late_price_from_the_border_on() -> MoneyWorld:
    """Use over minutes 59 and 60 at price 0, rated; then a price for minute 60 becomes known."""
    world = MoneyWorld()
    world.step(0, changed(pool("p", (1, 1, 0))), price(0, "a", (0, None)))
    world.step(61, usage("l1", 0, 59 * MINUTE_MS, 61 * MINUTE_MS, quantity_macc=1000))
    world.step(63)
    world.step(65, price(60, "a", (3_600_000, None)))
    for minute in (70, 120, 130, 180):
        world.step(minute)
    return world


def usage_lines(world: MoneyWorld) -> dict[int, list[InvoiceLine]]:
    """Lines of team t1 by the minute that their invoice begins."""
    return {
        (invoice.start_ms - START_MS) // MINUTE_MS: list(invoice.lines)
        for invoice in world.invoices()
        if invoice.team == "t1"
    }


def test_a_price_that_comes_late_for_the_part_behind_a_border_is_on_the_later_invoice() -> None:
    world = a_late_price_from_the_border_on()

    (line,) = over_a_border(world.log)
    assert isinstance(line, ChargeRated)
    assert (line.price_micro, line.end_ms - line.start_ms) == (0, 2 * MINUTE_MS)
    lines = usage_lines(world)
    assert [(e.price_micro, e.charges, e.amount_micro) for e in lines[0]] == [(0, 1, 0)]
    assert [(e.price_micro, e.charges, e.amount_micro) for e in lines[HOUR]] == [
        (3_600_000, 1, 60_000)
    ]
    assert audited(world.log).money["t1", "p"].payable_micro == 60_000


@PROPERTY
@given(seed=SEED)
def test_hours_with_records_over_borders_are_clean(seed: int) -> None:
    audited(long_records(seed))


def test_these_hours_have_charges_over_borders() -> None:
    lines = [line for seed in range(4) for line in over_a_border(long_records(seed))]
    assert len(lines) > 4


def test_a_correction_and_credits_over_a_border_and_a_void_of_one_side_are_clean() -> None:
    world = MoneyWorld()
    world.step(0, changed(pool("p", (1, 1, 0))), price(0, "a", (3_600_000, None)))
    world.step(61, usage("l1", 0, 59 * MINUTE_MS, 61 * MINUTE_MS, quantity_macc=1000))
    half_ms = MINUTE_MS // 2
    failed = drain("l1", 59 * MINUTE_MS + half_ms, 60 * MINUTE_MS + half_ms, DrainState.FAILED, "s")
    world.step(63, failed)
    world.step(65, price(58, "a", (7_200_000, None)))
    for minute in (66, 72):
        world.step(minute)
    (issued,) = [e for e in world.invoices() if e.team == "t1" and e.start_ms == START_MS]
    assert (issued.state, issued.payable_micro) == (InvoiceState.ISSUED, 60_000)
    void = InvoiceRequested(
        invoice_id=issued.invoice_id, action=InvoiceAction.VOID, reason="wrong address"
    )
    world.step(73, emit(void))
    for minute in (120, 130):
        world.step(minute)

    assert Counter(type(line) for line in over_a_border(world.log)) == {
        ChargeRated: 2,
        ChargeCredited: 2,
    }
    lines = usage_lines(world)[HOUR]
    assert sorted((e.kind.value, e.charges, e.amount_micro) for e in lines) == [
        ("correction", 1, 120_000),
        ("credit", 0, -60_000),
        ("credit", 2, -60_000),
        ("usage", 0, 120_000),
    ]
    assert audited(world.log).money["t1", "p"].payable_micro == 120_000


def test_canary_an_audit_that_does_not_cut_finds_differences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def whole(line: Line, periods: InvoicePeriods) -> list[Part]:
        period = periods.of(line.get("pool"), line.span[0])
        return [Part(period, *line.span, line.numerator, 1)]

    log = a_late_price_from_the_border_on().log
    monkeypatch.setattr(expected_invoices, "parts_of", whole)
    assert {each.code for each in audit(log).differences} >= {"invoice_differs"}


def line_over_a_month(numerator: int) -> Line:
    """Three milliseconds of which one is in October 2024 and two are in November."""
    start_ms = 1_730_419_199_999
    fields = dict.fromkeys(RATED_FIELDS) | {"pool": "p", "amount_numerator": numerator}
    fields |= {"charge_id": "c", "start_ms": start_ms, "end_ms": start_ms + 3}
    return Line(RATED, tuple(fields.values()), 0)


def test_a_line_is_cut_only_where_it_costs_the_same_for_each_millisecond() -> None:
    # Without a document of the pool its periods are months in UTC.
    periods = InvoicePeriods(Accounts())
    parts = [*parts_of(line_over_a_month(9), periods)]
    assert [(part.end_ms - part.start_ms, part.numerator, part.charges) for part in parts] == [
        (1, 3, 1),
        (2, 6, 0),
    ]
    with pytest.raises(AssertionError, match="does not cost the same"):
        list(parts_of(line_over_a_month(10), periods))


def test_the_first_period_begins_where_market_time_does() -> None:
    begin = -START_MS // MINUTE_MS
    document = pool("p", (1, 1, 0), period=BillingPeriod.DAY)
    world = MoneyWorld()
    world.step(begin, changed(document, minute=begin), price(begin, "a", (3_600_000, None)))
    world.step(begin + 1, usage("l1", 0, -START_MS, -START_MS + MINUTE_MS))
    for minute in (2, 60):
        world.step(begin + minute)

    # A day in Budapest, where it is one o'clock.
    assert {(e.start_ms, e.end_ms // MINUTE_MS) for e in world.invoices()} == {(0, 23 * HOUR)}
    assert audited(world.log).counts["invoices"] == 2


def coarse_world(monkeypatch: pytest.MonkeyPatch, lines_max: int, seed: int) -> MoneyWorld:
    """Hours of which invoices may have very few lines."""
    monkeypatch.setattr(walras_invoicing.lines, "LINES_MAX", lines_max)
    monkeypatch.setattr(expected_invoices, "LINES_MAX", lines_max)
    return Hours(seed, minutes=120).run(MoneyWorld())


def left_out(invoices: list[InvoicePublished]) -> Counter[str]:
    """Count what invoices leave out, and those of pools with and without prices together."""
    seen: Counter[str] = Counter()
    for invoice in invoices:
        scope = "team" if invoice.team else "pool"
        used = [line for line in invoice.lines if line.kind is InvoiceLineKind.USAGE]
        priced = {line.price_micro is not None for line in used}
        seen.update(
            name
            for name, is_so in (
                (f"{scope} without prices", False in priced),
                (f"{scope} with some prices", priced == {True, False}),
                (f"{scope} without jobs", any(line.job is None for line in used)),
                (f"{scope} without teams", any(line.team is None for line in used)),
                (f"{scope} without periods", any(line.period_start_ms is None for line in used)),
                (f"{scope} without classes", any(line.work_class is None for line in used)),
                (f"{scope} without markets", any(line.market is None for line in used)),
                (f"{scope} {invoice.state.value}", True),
            )
            if is_so
        )
    return seen


@pytest.mark.parametrize("lines_max", FEW_LINES)
@pytest.mark.parametrize("seed", range(4))
def test_invoices_that_leave_something_out_are_clean(
    monkeypatch: pytest.MonkeyPatch, lines_max: int, seed: int
) -> None:
    audited(coarse_world(monkeypatch, lines_max, seed).log)


def test_invoices_leave_out_all_that_they_can_and_pools_have_teams_that_do_and_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: Counter[str] = Counter()
    for lines_max in FEW_LINES:
        for seed in range(4):
            seen += left_out(coarse_world(monkeypatch, lines_max, seed).invoices())
    names = ("prices", "jobs", "periods", "classes", "markets")
    meant = {f"{scope} without {name}" for scope in ("team", "pool") for name in names}
    meant |= {"pool without teams", "team voided", "pool with some prices"}
    assert meant | {"pool issued", "pool draft"} <= seen.keys()


def test_an_invoice_of_more_markets_than_it_may_have_lines_is_clean_without_them() -> None:
    markets = [f"m{number}" for number in range(LINES_MAX + 1)]
    world = MoneyWorld()
    prices = [price(0, market, (3_600_000, None)) for market in markets]
    world.step(0, changed(pool("p", (1, 1, 0))), *prices)
    given = [
        usage("l1", 0, 0, MINUTE_MS, node=f"n-{market}", market=market, quantity_macc=1000)
        for market in markets
    ]
    world.step(1, *given)
    for minute in (2, 60):
        world.step(minute)

    invoices = {invoice.team: invoice for invoice in world.invoices()}
    assert invoices.keys() == {None, "t1"}
    for invoice in invoices.values():
        (line,) = invoice.lines
        assert (line.market, line.charges) == (None, len(markets))
    assert audited(world.log).money["t1", "p"].payable_micro == 60_000 * len(markets)


def test_canary_an_audit_that_allows_more_lines_finds_differences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = coarse_world(monkeypatch, 25, 0).log
    monkeypatch.setattr(expected_invoices, "LINES_MAX", 60)
    assert {each.code for each in audit(log).differences} == {"invoice_differs"}
