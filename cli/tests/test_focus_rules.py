"""The rules of FOCUS 1.2 on what the real invoicing service makes of random charges."""

from datetime import timedelta
from fractions import Fraction

import pytest

from cli.tests.focus_bench import (
    REFERENCE,
    latest,
    random_days,
    rows_of,
)
from walras.billing_log.amounts import NUMERATOR_PER_MICRO
from walras.focus.columns import MANDATORY, NAMES, PLACES
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.invoices import (
    InvoiceState,
)

LAST_PLACE = Fraction(1, 10**PLACES)
SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_billed_costs_of_an_invoice_sum_up_to_what_it_asks_for(seed: int) -> None:
    invoicing = random_days(seed)
    exported, rows = rows_of(invoicing.source(*REFERENCE))
    billed: dict[str, Fraction] = {}
    for row in rows:
        billed[row["InvoiceId"]] = billed.get(row["InvoiceId"], Fraction(0)) + Fraction(
            row["BilledCost"]
        )
    expected = {
        each.invoice_id: Fraction(each.payable_micro, 10**6)
        for each in latest(invoicing)
        if each.team is not None and each.state is not InvoiceState.VOIDED
    }
    assert billed == {name: total for name, total in expected.items() if name in billed}
    assert all(total == 0 for name, total in expected.items() if name not in billed)
    assert exported.payable_micro == sum(expected.values()) * 10**6, f"seed {seed}"
    assert exported.waiting == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_costs_by_pool_invoice_sum_up_to_the_pools(seed: int) -> None:
    invoicing = random_days(seed)
    _, rows = rows_of(invoicing.source())
    for each in latest(invoicing):
        if each.team is None and each.state is not InvoiceState.VOIDED:
            billed = [
                Fraction(r["BilledCost"]) for r in rows if r["x_PoolInvoiceId"] == each.invoice_id
            ]
            assert sum(billed, Fraction(0)) == Fraction(each.payable_micro, 10**6)


@pytest.mark.parametrize("seed", SEEDS)
def test_r25_originals_and_corrections_sum_up_to_the_charges_to_the_last_digit(seed: int) -> None:
    invoicing = random_days(seed)
    _, rows = rows_of(invoicing.source(*REFERENCE))
    lines = [each for each in invoicing.charges if isinstance(each, ChargeRated | ChargeCredited)]
    assert sum(int(row["x_AmountNumerator"]) for row in rows) == sum(
        int(line.amount_numerator) for line in lines
    )
    ids = {line.charge_id for line in lines}
    corrections = [row for row in rows if row["ChargeClass"] == "Correction"]
    assert corrections, f"seed {seed}"
    for row in corrections:
        assert row["x_CorrectionReason"]
        assert row["x_CorrectsChargeId"] in ids | {None}
        named = row["x_CorrectsChargeId"] is not None
        assert named or row["x_CorrectionReason"] in {"late_usage", "voided_invoice"}
        if row["x_CorrectsInvoiceId"] is not None:
            assert row["x_OriginalPeriodStart"] < row["BillingPeriodStart"]
    by_reason = {row["x_CorrectionReason"] for row in corrections if row["x_CorrectsChargeId"]}
    assert by_reason <= {"late_price", "drain_failed"}


@pytest.mark.parametrize("seed", SEEDS)
def test_quantity_times_unit_price_is_the_cost_unless_it_is_a_correction(seed: int) -> None:
    _, rows = rows_of(random_days(seed).source(*REFERENCE))
    used = [r for r in rows if r["ChargeCategory"] == "Usage" and r["ChargeClass"] is None]
    assert used
    for row in used:
        for price, amount in (
            ("ContractedUnitPrice", "ContractedCost"),
            ("ListUnitPrice", "ListCost"),
        ):
            product = Fraction(row["PricingQuantity"]) * Fraction(row[price])
            allowed = (Fraction(row[price]) + 1) * LAST_PLACE / 2
            assert abs(product - Fraction(row[amount])) <= allowed
        # Exactly, by the columns that hold what was multiplied.
        price_micro = Fraction(row["x_ClearingPrice"]) * 10**6
        exact = price_micro * row["x_TariffPpm"] * Fraction(row["x_MaccMs"])
        assert exact == int(row["x_AmountNumerator"])
        assert (
            abs(Fraction(row["BilledCost"]) - exact / NUMERATOR_PER_MICRO / 10**6) <= LAST_PLACE / 2
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_keep_the_rules_of_nulls_times_and_values(seed: int) -> None:
    _, rows = rows_of(random_days(seed).source(*REFERENCE))
    nullable = {"BillingAccountName", "ChargeClass", "PricingQuantity", "PricingUnit"}
    for row in rows:
        assert tuple(row) == NAMES or set(row) == set(NAMES)
        for name, _ in MANDATORY:
            assert row[name] is not None or name in nullable, name
        assert all(value != "" for value in row.values()), "nulls, not placeholders"
        assert row["ChargeCategory"] in {"Usage", "Credit", "Adjustment"}
        assert row["ChargeClass"] in {"Correction", None}
        assert row["ChargePeriodStart"] < row["ChargePeriodEnd"]
        assert row["ChargePeriodStart"].utcoffset() == timedelta(0)
        assert row["BillingPeriodStart"] < row["BillingPeriodEnd"]
        if row["ChargeClass"] is None and row["ChargeCategory"] != "Adjustment":
            assert row["BillingPeriodStart"] <= row["ChargePeriodStart"]
            assert row["ChargePeriodEnd"] <= row["BillingPeriodEnd"], "cut at the border"
        if row["ChargeCategory"] == "Usage" and row["ChargeClass"] is None:
            for name in (
                "PricingQuantity",
                "PricingUnit",
                "PricingCategory",
                "SkuId",
                "SkuPriceId",
            ):
                assert row[name] is not None
            assert row["ConsumedQuantity"] > 0
        if row["ChargeCategory"] != "Usage":
            assert row["PricingQuantity"] is None
            assert row["ContractedCost"] == row["EffectiveCost"] == row["BilledCost"]
    accounts = {(row["InvoiceId"], row["BillingAccountId"]) for row in rows}
    assert len(accounts) == len({name for name, _ in accounts})
