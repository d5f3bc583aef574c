"""`walras focus`: charges over the border of invoice periods have rows on both invoices."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

import pytest

from cli.tests.focus_bench import DAY_MS, START_MS, Invoicing, latest, pool, random_days, rows_of
from walras.billing_log import BillingLogError
from walras.billing_log.sources import StepTime
from walras.billing_log.testing import (
    HOUR_MS,
    UNITS,
    charge,
    correction,
    credit,
    invoice,
    invoice_line,
)
from walras.focus import placing
from walras.focus.placing import Placing
from walras.focus.rounding import Rounding
from walras.focus.rows import Row
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.invoices import InvoiceAction, InvoicePublished, InvoiceRequested

MIDNIGHT_MS = START_MS + DAY_MS
LINE = charge(MIDNIGHT_MS - HOUR_MS, MIDNIGHT_MS + 2 * HOUR_MS, 10**6)
"""One credit before midnight, two after it."""
SPAN = (LINE.start_ms, LINE.end_ms)


def costs(rows: list[Row]) -> list[tuple[int, str, int, Decimal]]:
    """Day of the invoice, category, hours and cost of rows."""
    first = min(row["BillingPeriodStart"] for row in rows)
    return [
        (
            (row["BillingPeriodStart"] - first) // timedelta(days=1),
            row["ChargeCategory"],
            (row["ChargePeriodEnd"] - row["ChargePeriodStart"]) // timedelta(hours=1),
            row["BilledCost"],
        )
        for row in rows
    ]


def over_midnight() -> Invoicing:
    invoicing = Invoicing()
    invoicing.step(START_MS, pool())
    invoicing.step(MIDNIGHT_MS, LINE)
    return invoicing


def test_a_charge_has_a_row_of_what_lies_in_it_on_the_invoice_of_each_period() -> None:
    _, rows = rows_of(over_midnight().source())
    assert costs(rows) == [(0, "Usage", 1, Decimal(1)), (1, "Usage", 2, Decimal(2))]
    assert {row["x_ChargeId"] for row in rows} == {LINE.charge_id}
    assert {row["ChargeClass"] for row in rows} == {None}


def test_a_correction_and_a_credit_are_cut_as_their_charge_is() -> None:
    invoicing = over_midnight()
    dearer = correction(LINE, *SPAN, price_micro=3 * 10**6, previous_price_micro=10**6)
    back = credit(LINE, -int(LINE.amount_numerator))
    invoicing.step(MIDNIGHT_MS + HOUR_MS // 2, dearer, back)
    invoicing.step(MIDNIGHT_MS + HOUR_MS)
    _, rows = rows_of(invoicing.source())
    assert costs(rows) == [
        (0, "Usage", 1, Decimal(3)),
        (0, "Credit", 1, Decimal(-1)),
        (1, "Usage", 2, Decimal(6)),
        (1, "Credit", 2, Decimal(-2)),
    ]


def test_of_a_late_correction_the_part_before_the_border_has_a_row_of_its_own() -> None:
    invoicing = over_midnight()
    invoicing.step(MIDNIGHT_MS + HOUR_MS)
    dearer = correction(LINE, *SPAN, price_micro=3 * 10**6, previous_price_micro=10**6)
    invoicing.step(MIDNIGHT_MS + 2 * HOUR_MS, dearer)
    _, rows = rows_of(invoicing.source())
    assert costs(rows) == [
        (0, "Usage", 1, Decimal(1)),
        (1, "Usage", 1, Decimal(2)),
        (1, "Usage", 2, Decimal(6)),
    ]
    assert [row["ChargeClass"] for row in rows] == [None, "Correction", None]
    assert rows[1]["x_CorrectsInvoiceId"] == rows[0]["InvoiceId"]


def test_a_void_moves_the_part_of_its_period() -> None:
    invoicing = over_midnight()
    invoicing.step(MIDNIGHT_MS + HOUR_MS)
    (issued,) = [e for e in latest(invoicing) if e.team and e.start_ms == START_MS]
    ask = InvoiceRequested(invoice_id=issued.invoice_id, action=InvoiceAction.VOID, reason="x")
    invoicing.step(MIDNIGHT_MS + 3 * HOUR_MS, ask)
    _, rows = rows_of(invoicing.source())
    assert costs(rows) == [(0, "Usage", 1, Decimal(1)), (0, "Usage", 2, Decimal(2))]
    assert [row["x_CorrectionReason"] for row in rows] == ["voided_invoice", None]


def test_late_use_of_a_period_without_an_invoice_is_cut_where_one_begins() -> None:
    invoicing = Invoicing()
    invoicing.step(START_MS, pool())
    invoicing.step(MIDNIGHT_MS + HOUR_MS)
    invoicing.step(MIDNIGHT_MS + 2 * HOUR_MS, LINE)
    _, rows = rows_of(invoicing.source())
    assert costs(rows) == [(0, "Usage", 1, Decimal(1)), (0, "Usage", 2, Decimal(2))]
    assert [row["x_CorrectionReason"] for row in rows] == ["late_usage", None]


def test_the_random_days_have_lines_of_all_kinds_over_midnight() -> None:
    kinds: set[tuple[str, bool]] = set()
    for seed in range(8):
        for line in random_days(seed).charges:
            if isinstance(line, ChargeRated | ChargeCredited):
                is_over = line.start_ms // DAY_MS < (line.end_ms - 1) // DAY_MS
                corrects = getattr(line, "corrects", None) is not None
                kinds |= {(type(line).__name__, corrects)} if is_over else set()
    assert kinds == {("ChargeRated", False), ("ChargeRated", True), ("ChargeCredited", False)}


def test_a_line_that_cannot_be_cut_is_refused() -> None:
    invoicing = over_midnight()
    source = invoicing.source(credit(LINE, -1))
    with pytest.raises(BillingLogError, match="cannot be cut"):
        rows_of(source)


def test_canary_lines_that_are_not_cut_are_not_what_the_invoices_sum_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def whole(
        self: Placing, line: ChargeRated | ChargeCredited, step: StepTime | None
    ) -> Iterator[tuple[ChargeRated | ChargeCredited, placing.Place | None]]:
        yield line, self._place(line, step)

    monkeypatch.setattr(Placing, "place", whole)
    with pytest.raises(BillingLogError, match="its charge lines"):
        rows_of(over_midnight().source())


def asked(micro: int, numerator: int, state: str = "issued") -> InvoicePublished:
    """An invoice that asks for so much for lines of so many units."""
    return invoice(invoice_line("usage", micro, amount_numerator=str(numerator)), state=state)


def test_rounding_explains_two_micro_credits_and_what_voided_invoices_were_off() -> None:
    most, more = asked(2, 0), asked(3, UNITS // 2)
    nothing_voided, voided = (
        Rounding.of([most, more]),
        Rounding.of([asked(1, UNITS // 2, "voided")]),
    )
    assert nothing_voided.explains(most)
    assert not nothing_voided.explains(more)
    assert voided.explains(more)
    assert not voided.explains(asked(3, UNITS // 2 - 1))
