"""Drafts, issue, hold, approval, void, corrections: what a tenant and finance see."""

from typing import Any

import pytest

from services.invoicing.tests.invoicing_bench import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    START_MS,
    UNITS,
    Bench,
    ask,
    charge,
    credit,
    entry,
    pending,
    pool,
    rejected_late,
)
from walras_contracts.accounts import BillingPeriod
from walras_contracts.identifiers import digest_of
from walras_contracts.invoices import InvoiceAction, InvoiceLineKind, InvoiceState
from walras_contracts.ledger import EntryKind
from walras_contracts.work import WorkClass

USAGE, CORRECTION = InvoiceLineKind.USAGE, InvoiceLineKind.CORRECTION
CREDIT, UNBILLED = InvoiceLineKind.CREDIT, InvoiceLineKind.UNBILLED
DUE_MS = DAY_MS + HOUR_MS
"""When the invoices of the first day are due."""


def test_a_draft_is_published_at_once_then_at_most_hourly_and_is_issued_when_it_is_due() -> None:
    bench = Bench()
    bench.step(0, pool())
    (first, _) = bench.step(5 * MINUTE_MS, charge(0, 7 * UNITS))
    assert (first.team, first.revision, first.payable_micro) == ("t1", 0, 7)
    assert (first.start_ms, first.end_ms) == (START_MS, START_MS + DAY_MS)
    assert first.due_ms == START_MS + DUE_MS
    assert bench.step(9 * MINUTE_MS, charge(1, 2 * UNITS)) == []
    hourly = bench.step(HOUR_MS)
    assert [(e.scope, e.revision, e.payable_micro) for e in hourly] == [
        ("team", 1, 9),
        ("pool", 1, 9),
    ]
    assert bench.step(2 * HOUR_MS) == [], "nothing has changed"
    assert bench.step(DUE_MS - 1) == []
    issued = bench.step(DUE_MS)
    assert [(e.scope, e.state, e.payable_micro) for e in issued] == [
        ("team", InvoiceState.ISSUED, 9),
        ("pool", InvoiceState.ISSUED, 9),
    ]
    assert bench.step(DUE_MS + HOUR_MS) == [], "issued twice is issued once"


def test_the_id_of_an_invoice_is_a_function_of_whose_it_is_and_of_its_period() -> None:
    bench = Bench()
    team, of_pool = bench.step(0, pool(), charge(0, UNITS))
    start = str(START_MS)
    assert team.invoice_id == digest_of("invoice", "team", "p", "t1", "day", "UTC", start)
    assert of_pool.invoice_id == digest_of("invoice", "pool", "p", "", "day", "UTC", start)


def test_r23_late_use_changes_the_draft_within_the_grace_and_corrects_after_the_issue() -> None:
    bench = Bench()
    bench.step(0, pool(), charge(0, 10 * UNITS))
    bench.step(DAY_MS + 30 * MINUTE_MS, charge(1, 5 * UNITS))
    bench.step(DUE_MS, charge(2, 3 * UNITS))
    issued = bench.invoice()
    assert issued.state is InvoiceState.ISSUED
    assert issued.payable_micro == 18, "what lies before the due barrier is within the grace"
    assert {line.kind for line in issued.lines} == {USAGE}

    bench.step(DUE_MS + MINUTE_MS, charge(3, 4 * UNITS))
    following = bench.invoice(DAY_MS)
    assert [(e.kind, e.amount_micro, e.period_start_ms) for e in following.lines] == [
        (CORRECTION, 4, START_MS)
    ]
    assert bench.invoice() == issued

    bench.step(DUE_MS + 2 * HOUR_MS, rejected_late(77), rejected_late(11, "overlap"))
    assert bench.invoice(DAY_MS).rejected_late_macc_ms == "77"
    assert bench.latest()["p", "", DAY_MS].rejected_late_macc_ms == "77"


def test_a_correction_moves_use_to_the_new_price_on_a_draft_and_is_linked_afterwards() -> None:
    bench = Bench()
    hour: dict[str, Any] = {"length_ms": HOUR_MS, "macc": 1000}
    bench.step(0, pool(), charge(0, 0, price=50, **hour), charge(HOUR_MS, 0, price=50, **hour))
    bench.step(2 * HOUR_MS, charge(0, 0, price=80, previous=50, corrects=True, **hour))
    draft = bench.invoice()
    assert [(e.kind, e.price_micro, e.macc_ms, e.amount_micro) for e in draft.lines] == [
        (USAGE, 50, str(1000 * HOUR_MS), 50),
        (USAGE, 80, str(1000 * HOUR_MS), 80),
    ]
    bench.step(3 * HOUR_MS, charge(HOUR_MS, 0, price=None, previous=50, corrects=True, **hour))
    assert [e.price_micro for e in bench.invoice().lines] == [80], "nothing is left of the other"

    bench.step(DUE_MS)
    bench.step(DUE_MS + HOUR_MS, charge(0, 0, price=70, previous=80, corrects=True, **hour))
    (line,) = bench.invoice(DAY_MS).lines
    assert (line.kind, line.price_micro, line.amount_micro) == (CORRECTION, None, -10)


def test_free_use_stands_on_unbilled_lines_and_credits_on_their_own() -> None:
    bench = Bench()
    free: dict[str, Any] = {"price": 0, "length_ms": 10}
    bench.step(
        0,
        pool(),
        charge(0, 9 * UNITS),
        charge(0, 0, work_class=WorkClass.OPPORTUNISTIC, **free),
        charge(0, 0, billable=False, **free),
        charge(0, 0, price=0, length_ms=4),
        credit(5, -2 * UNITS),
    )
    lines = {(e.kind, e.work_class, e.macc_ms): e.amount_micro for e in bench.invoice().lines}
    assert lines == {
        (USAGE, WorkClass.MARKET, "1"): 9,
        (USAGE, WorkClass.MARKET, "4"): 0,
        (CREDIT, WorkClass.MARKET, "1"): -2,
        (UNBILLED, WorkClass.MARKET, "10"): 0,
        (UNBILLED, WorkClass.OPPORTUNISTIC, "10"): 0,
    }
    bench.step(DUE_MS)
    late = charge(0, 0, work_class=WorkClass.OPPORTUNISTIC, **free)
    bench.step(DUE_MS + HOUR_MS, credit(6, -UNITS), late)
    following = bench.invoice(DAY_MS)
    assert [(e.kind, e.amount_micro) for e in following.lines] == [(CREDIT, -1), (UNBILLED, 0)]
    assert following.payable_micro == -1


def test_a_held_draft_is_not_issued_and_stays_as_it_was_when_it_fell_due() -> None:
    bench = Bench()
    bench.step(0, pool(), charge(0, 5 * UNITS))
    (held,) = bench.step(HOUR_MS - 1, ask(bench.invoice(), InvoiceAction.HOLD, "disputed"))
    assert (held.state, held.held, held.reason) == (InvoiceState.DRAFT, True, "disputed")
    assert bench.step(HOUR_MS - 1, ask(held, InvoiceAction.HOLD, "again")) == []
    bench.step(DUE_MS)
    assert bench.invoice().state is InvoiceState.DRAFT
    assert bench.latest()["p", "", 0].state is InvoiceState.DRAFT, "the pool's waits for it"
    bench.step(DUE_MS + HOUR_MS, charge(1, 3 * UNITS))
    assert bench.invoice().payable_micro == 5
    assert bench.invoice(DAY_MS).payable_micro == 3

    bench.step(DUE_MS + HOUR_MS + 1, ask(held, InvoiceAction.RELEASE))
    assert (bench.invoice().state, bench.invoice().held) == (InvoiceState.ISSUED, False)
    assert bench.latest()["p", "", 0].state is InvoiceState.ISSUED
    bench.step(DUE_MS + HOUR_MS + 2, ask(held, InvoiceAction.HOLD))
    assert bench.refused() == [("hold", "issued")]


def test_a_pool_that_wants_approval_gets_its_invoices_issued_by_hand_only() -> None:
    bench = Bench()
    bench.step(0, pool(approval=True), charge(0, 5 * UNITS), charge(0, 4 * UNITS, team="t2"))
    draft = bench.invoice()
    bench.step(1, ask(draft, InvoiceAction.APPROVE))
    assert bench.refused() == [("approve", "not_due")]
    bench.step(DUE_MS)
    assert bench.invoice().state is InvoiceState.DRAFT
    bench.step(DUE_MS + 1, ask(draft, InvoiceAction.APPROVE))
    assert bench.invoice().state is InvoiceState.ISSUED
    assert bench.invoice(team="t2").state is InvoiceState.DRAFT
    assert bench.step(DUE_MS + 2, ask(draft, InvoiceAction.APPROVE)) == []

    bench.step(DUE_MS + 3, ask(bench.latest()["p", "", 0], InvoiceAction.APPROVE))
    assert bench.invoice(team="t2").state is InvoiceState.ISSUED
    assert bench.latest()["p", "", 0].state is InvoiceState.ISSUED
    assert bench.refused() == [("approve", "not_due")]


def test_a_pools_invoice_that_is_held_keeps_all_its_teams_drafts_back() -> None:
    bench = Bench()
    _, of_pool = bench.step(0, pool(), charge(0, 5 * UNITS))
    (held,) = bench.step(1, ask(of_pool, InvoiceAction.HOLD, "audit"))
    assert (held.scope, held.held, held.reason) == ("pool", True, "audit")
    bench.step(2, charge(0, 2 * UNITS, team="t2"))
    bench.step(DUE_MS, ask(bench.invoice(team="t2"), InvoiceAction.APPROVE))
    assert bench.refused() == [("approve", "held")]
    assert {e.state for e in bench.latest().values()} == {InvoiceState.DRAFT}
    bench.step(DUE_MS + 1, ask(of_pool, InvoiceAction.RELEASE))
    assert {e.state for e in bench.latest().values()} == {InvoiceState.ISSUED}


def test_a_voided_invoice_moves_its_lines_to_the_open_one() -> None:
    bench = Bench()
    bench.step(0, pool(), charge(0, 5 * UNITS), charge(0, 4 * UNITS, team="t2"))
    bench.step(0, ask(bench.invoice(), InvoiceAction.VOID))
    assert bench.refused() == [("void", "not_issued")]
    bench.step(DUE_MS, credit(1, -UNITS))
    issued = bench.invoice()
    bench.step(DUE_MS + 1, ask(issued, InvoiceAction.VOID, "wrong address"))

    voided = bench.invoice()
    assert (voided.state, voided.reason) == (InvoiceState.VOIDED, "wrong address")
    assert (voided.lines, voided.payable_micro) == (issued.lines, 4)
    following = bench.invoice(DAY_MS)
    assert [(e.kind, e.amount_micro, e.period_start_ms) for e in following.lines] == [
        (CORRECTION, 5, START_MS),
        (CREDIT, -1, START_MS),
    ]
    of_pool = bench.latest()["p", "", 0]
    assert (of_pool.state, of_pool.payable_micro) == (InvoiceState.ISSUED, 4)
    assert {line.team for line in of_pool.lines} == {"t2"}
    assert bench.step(DUE_MS + 2, ask(issued, InvoiceAction.VOID)) == []
    bench.step(DUE_MS + 3, ask(issued, InvoiceAction.RELEASE))
    assert bench.refused()[1:] == [("release", "voided")]

    bench.step(DUE_MS + 4, ask(of_pool, InvoiceAction.VOID))
    assert bench.latest()["p", "", 0].state is InvoiceState.VOIDED
    assert bench.latest()["p", "", DAY_MS].payable_micro == 8


def test_what_is_asked_of_no_invoice_is_refused() -> None:
    bench = Bench()
    bench.step(0, ask("0" * 32, InvoiceAction.VOID))
    assert bench.refused() == [("void", "unknown_invoice")]


def test_use_that_waits_for_its_price_is_named_on_the_draft_of_its_period() -> None:
    bench = Bench()
    bench.step(0, pool(), charge(0, UNITS), pending(1, 40), pending(DAY_MS, 2))
    assert bench.invoice().pending_macc_ms == "40"
    bench.compact()
    bench.step(HOUR_MS, pending(2, 60))
    assert bench.invoice().pending_macc_ms == "100"
    bench.step(2 * HOUR_MS, pending(1, 1, ended=True))
    assert bench.invoice().pending_macc_ms == "60"
    bench.step(DUE_MS, pending(2, 1, ended=True), pending(3, 5))
    bench.step(DUE_MS + HOUR_MS, pending(3, 1, ended=True))
    assert bench.invoice().pending_macc_ms == "5", "as it was when it was issued"
    assert bench.latest()["p", "", 0].pending_macc_ms == "5"


@pytest.mark.parametrize("kind", [EntryKind.USAGE, EntryKind.CREDIT])
def test_nothing_is_issued_while_the_ledger_says_otherwise_than_the_charges(
    kind: EntryKind,
) -> None:
    bench = Bench()
    bench.step(0, pool(), charge(0, 5 * UNITS + 1), credit(0, -2 * UNITS))
    right = f"{5 * UNITS + 1}/{UNITS}" if kind is EntryKind.USAGE else "2/1"
    assert bench.step(1, entry(kind, right), entry(EntryKind.INCOME, "9/7")) == []
    (held,) = bench.step(2, entry(kind, "7/2"))
    assert held.held
    assert held.reason.startswith(f"ledger_differs: {kind.value}: ")
    bench.step(DUE_MS, ask(held, InvoiceAction.APPROVE))
    assert bench.refused() == [("approve", "ledger_differs")]
    assert bench.invoice().state is InvoiceState.DRAFT
    bench.step(DUE_MS + 1, entry(kind, right))
    assert (bench.invoice().state, bench.invoice().held) == (InvoiceState.ISSUED, False)


def test_use_of_a_period_that_is_over_when_it_comes_is_a_correction_though_nothing_was_issued() -> (
    None
):
    bench = Bench()
    bench.step(0, pool())
    bench.step(DUE_MS)
    bench.step(DUE_MS + 1, charge(0, 6 * UNITS))
    assert [key for key in bench.latest() if key[1]] == [("p", "t1", DAY_MS)]


def test_one_step_over_many_periods_issues_all_that_fell_due_within_it() -> None:
    bench = Bench()
    bench.step(0, pool(period=BillingPeriod.HOUR, grace_ms=0))
    given = [charge(hour * HOUR_MS, UNITS) for hour in range(5)]
    bench.step(4 * HOUR_MS, *given)
    states = [bench.invoice(hour * HOUR_MS).state for hour in range(5)]
    assert states == [InvoiceState.ISSUED] * 4 + [InvoiceState.DRAFT]


def test_a_pool_that_nobody_described_is_invoiced_by_the_month_in_utc() -> None:
    bench = Bench()
    team, _ = bench.step(0, charge(0, UNITS, of_pool="nobody"))
    assert (team.period, team.zone) == (BillingPeriod.MONTH, "UTC")


def test_an_invoice_that_exists_keeps_its_terms_though_a_first_document_says_otherwise() -> None:
    bench = Bench()
    bench.step(0, charge(0, 5 * UNITS))
    (began_ms,) = {start_ms for _, team, start_ms in bench.latest() if team}
    month_ms = bench.invoice(began_ms).end_ms - START_MS
    bench.step(DAY_MS, pool(period=BillingPeriod.MONTH, at_ms=DAY_MS, grace_ms=3 * DAY_MS))
    bench.step(month_ms + HOUR_MS)
    issued = bench.invoice(began_ms)
    assert issued.state is InvoiceState.ISSUED
    bench.step(month_ms + 2 * HOUR_MS, charge(1, 3 * UNITS))
    bench.step(month_ms + 3 * HOUR_MS)
    assert bench.invoice(began_ms) == issued
    following = bench.invoice(month_ms)
    assert [(e.kind, e.amount_micro) for e in following.lines] == [(CORRECTION, 3)]
