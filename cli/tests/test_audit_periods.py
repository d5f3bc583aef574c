"""What the audit of invoices rests on: a period that has begun stays as invoicing knew it.

The audit reads all documents first and then follows the charges; invoicing folds documents as they
come. Both say the same of each period with use in it, because documents take effect when they come
or later, and use of a pool counts from its first document on.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.tests.audit_days import MINUTE_MS, START_MS, Hours, MoneyWorld, changed, pool, price, usage
from walras.audit import audit
from walras.audit.incomes import Accounts
from walras.audit.invoice_periods import InvoicePeriods
from walras_contracts.accounts import AccountsChanged, BillingPeriod, BillingTerms, PoolDocument
from walras_contracts.invoices import InvoiceLineKind
from walras_contracts.quantities import SETTLEMENT_MS
from walras_invoicing.calendar import PoolCalendar
from walras_invoicing.lines import LineBook, LineKey

ZONES = ("UTC", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe")
TERMS = st.builds(
    BillingTerms,
    zone=st.sampled_from(ZONES),
    period=st.sampled_from(BillingPeriod),
    grace_ms=st.sampled_from((0, 5 * MINUTE_MS, 60 * MINUTE_MS)),
    approval=st.booleans(),
)


def as_intake_writes(number: int, came_ms: int, terms: BillingTerms) -> AccountsChanged:
    """A document that came at a barrier: the first counts at once, others from a boundary on."""
    boundary_ms = -(-came_ms // SETTLEMENT_MS) * SETTLEMENT_MS
    document = PoolDocument(pool="p", weight_micro_per_hour=1, billing=terms, teams=())
    effective_ms = boundary_ms if number else came_ms
    return AccountsChanged(version=number + 1, effective_ms=effective_ms, document=document)


@given(
    came=st.lists(st.tuples(st.integers(0, 3000), TERMS), min_size=1, max_size=5),
    now=st.integers(0, 4000),
    back=st.integers(0, 4000),
)
def test_all_documents_say_of_a_period_that_has_begun_what_those_known_by_then_say(
    came: list[tuple[int, BillingTerms]], now: int, back: int
) -> None:
    ordered = sorted(came, key=lambda each: each[0])
    documents = [
        as_intake_writes(number, START_MS + minute * MINUTE_MS, terms)
        for number, (minute, terms) in enumerate(ordered)
    ]
    now = max(now, ordered[0][0])
    at_ms = START_MS + max(now - back, ordered[0][0]) * MINUTE_MS
    known, accounts = PoolCalendar(), Accounts()
    for document, (minute, _) in zip(documents, ordered, strict=True):
        accounts.put(document.model_dump(mode="json"), 0)
        if minute <= now:
            known.put(document)
    must = known.period(at_ms)
    found = InvoicePeriods(accounts).of("p", at_ms)
    assert found == (
        must.kind.value,
        must.zone,
        must.start_ms,
        must.end_ms,
        must.due_ms,
        must.terms.approval,
    )


def test_canary_a_document_of_the_past_would_move_a_period_that_has_begun() -> None:
    first = as_intake_writes(0, START_MS, BillingTerms(period=BillingPeriod.MONTH))
    second = as_intake_writes(1, START_MS, BillingTerms(period=BillingPeriod.HOUR))
    held = PoolCalendar()
    held.put(first)
    began = held.period(START_MS)
    held.put(second.model_copy(update={"effective_ms": START_MS - SETTLEMENT_MS}))
    assert held.period(START_MS) != began


def test_use_of_a_pool_before_its_first_document_is_on_no_invoice_and_never_corrected() -> None:
    world = MoneyWorld()
    world.step(0, changed(pool("p", (1, 1, 0))), price(0, "a", (0, 0)))
    early = usage("l1", 0, MINUTE_MS, 2 * MINUTE_MS, pool="q")
    world.step(2, early)
    world.step(4)
    world.step(5, changed(pool("q", (1, 1)), minute=5), price(0, "a", (0, 3_600_000)))
    world.step(9, usage("l1", 1, 5 * MINUTE_MS, 6 * MINUTE_MS, pool="q", quantity_macc=1000))
    world.step(60)
    report = audit(world.log)
    assert report.is_clean, report.differences[:5]
    assert report.quarantined == {"unknown_pool": 1}
    of_q = [invoice for invoice in world.invoices() if invoice.pool == "q" and invoice.team]
    assert [(line.kind, line.amount_micro) for e in of_q for line in e.lines] == [
        (InvoiceLineKind.USAGE, 60_000)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_draft_holds_all_that_a_correction_takes_back(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed: list[LineKey] = []
    asked: list[LineKey] = []
    holds = LineBook.holds

    def watched(book: LineBook, key: LineKey, macc_ms: int) -> bool:
        found = holds(book, key, macc_ms)
        (asked if found else missed).append(key)
        return found

    monkeypatch.setattr(LineBook, "holds", watched)
    Hours(seed, minutes=150).run(MoneyWorld())
    assert missed == []
    assert asked, "no correction of a draft"
