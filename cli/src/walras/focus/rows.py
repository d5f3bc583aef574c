"""Rows of the export: one a part of a charge in one period at one price and one reference price.

Corrections that an invoice took while it was a draft change the rows of their charge; those of an
earlier period have rows of their own and name the charge. What whole micro-credits make of the
exact sum of an invoice is its last row, an adjustment.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from walras.billing_log.errors import BillingLogError
from walras.focus.columns import NAMES, PLACES
from walras.focus.exact_decimals import (
    accelerator_hours,
    accelerator_seconds,
    cost,
    credits_of_micro,
    scaled,
    unit_price,
)
from walras.focus.placing import Place
from walras.focus.rounding import Rounding
from walras_contracts.charges import ChargeCredited, ChargeRated
from walras_contracts.invoices import InvoicePublished
from walras_contracts.work import WorkClass

BILLING_CURRENCY: Final = "XXX"
"""ISO 4217's code where no currency is involved: credits are internal."""
PRICING_CURRENCY: Final = "Credits"
PRICING_UNIT: Final = "Accelerator-Hours"
CONSUMED_UNIT: Final = "Accelerator-Seconds"
SERVICE_CATEGORY: Final = "Compute"
SERVICE: Final = "Accelerator quota"
CORRECTION: Final = "Correction"
LATE_USAGE: Final = "late_usage"
VOIDED_INVOICE: Final = "voided_invoice"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a charge, with prices in µcr per accelerator-hour.

    The reference price None: there was none.
    """

    start_ms: int
    end_ms: int
    price_micro: int
    reference_micro: int | None


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows; ``provider`` names who sells and issues."""

    provider: str
    rounded: Rounding
    pool_invoices: dict[tuple[str, int, int], str]
    """Ids of pools' invoices by pool, start and end."""

    def usage(self, line: ChargeRated, place: Place, part: Part) -> Row:
        """Return the row of a part of a charge, as it is charged now."""
        numerator = part.price_micro * _weight(line) * (part.end_ms - part.start_ms)
        list_micro = part.price_micro
        if part.reference_micro is not None and not _is_free(line):
            list_micro = part.reference_micro
        list_numerator = list_micro * _weight(line) * (part.end_ms - part.start_ms)
        row = self._of_line(line, place, part.start_ms, part.end_ms)
        row |= self._of_charge(line, part.price_micro, part.end_ms - part.start_ms)
        row |= _costs(cost(numerator), cost(list_numerator), str(numerator))
        row["ListUnitPrice"] = unit_price(list_micro, line.tariff_ppm)
        row["PricingCurrencyListUnitPrice"] = row["ListUnitPrice"]
        if part.reference_micro is not None:
            row["x_ReferencePrice"] = credits_of_micro(part.reference_micro)
        if place.is_correction:
            row["x_CorrectionReason"] = VOIDED_INVOICE if place.was_voided else LATE_USAGE
        row["ChargeDescription"] = (
            f"{_described(line)} of job {line.job} in {line.market}, {_reason(row)}"
            if place.is_correction
            else f"{_described(line)} of job {line.job} in {line.market}"
        )
        return row

    def correction(self, line: ChargeRated, place: Place) -> Row:
        """Return the row of a correction of a charge of an invoiced period: the difference."""
        row = self._of_line(line, place, line.start_ms, line.end_ms)
        row |= self._of_charge(line, line.price_micro, line.end_ms - line.start_ms)
        amount = cost(int(line.amount_numerator))
        row |= _costs(amount, amount, line.amount_numerator)
        row["x_CorrectsChargeId"] = line.corrects
        row["x_CorrectionReason"] = line.reason.value
        row["ChargeDescription"] = (
            f"Correction ({_reason(row)}) of charge {line.corrects} of job {line.job} in "
            f"{line.market}"
        )
        return row

    def credit(self, line: ChargeCredited, place: Place) -> Row:
        """Return the row of a credit."""
        row = self._of_line(line, place, line.start_ms, line.end_ms)
        amount = cost(int(line.amount_numerator))
        row |= _costs(amount, amount, line.amount_numerator)
        row["ChargeCategory"] = "Credit"
        row["x_CorrectsChargeId"] = line.credits
        row["x_CorrectionReason"] = line.reason.value
        row["x_DrainSession"] = line.session or None
        row["ChargeDescription"] = (
            f"Credit ({_reason(row)}) for charge {line.credits} of job {line.job} in {line.market}"
        )
        return row

    def rounding(self, invoice: InvoicePublished, billed_units: int) -> Row | None:
        """Return the row that is left between the rows of an invoice and what is payable.

        Raises
        ------
        BillingLogError
            More is left than rounding makes.
        """
        left = invoice.payable_micro * 10 ** (PLACES - 6) - billed_units
        if not self.rounded.explains(invoice):
            raise BillingLogError(
                f"invoice {invoice.invoice_id}: {invoice.payable_micro} micro-credits are payable, "
                f"which is not what its lines sum up to"
            )
        if not left:
            return None
        row = self._of_invoice(invoice)
        row |= _costs(scaled(left), scaled(left), "0")
        row["ChargeCategory"] = "Adjustment"
        row["ChargeDescription"] = "Rounding of the exact sum to whole micro-credits"
        row["ChargePeriodStart"], row["ChargePeriodEnd"] = (
            row["BillingPeriodStart"],
            row["BillingPeriodEnd"],
        )
        return row

    def _of_invoice(self, invoice: InvoicePublished) -> Row:
        row: Row = dict.fromkeys(NAMES)
        row |= {
            "BillingAccountId": invoice.pool,
            "BillingCurrency": BILLING_CURRENCY,
            "BillingPeriodStart": instant(invoice.start_ms),
            "BillingPeriodEnd": instant(invoice.end_ms),
            "InvoiceIssuerName": self.provider,
            "ProviderName": self.provider,
            "PublisherName": self.provider,
            "ServiceCategory": SERVICE_CATEGORY,
            "ServiceName": SERVICE,
            "InvoiceId": invoice.invoice_id,
            "PricingCurrency": PRICING_CURRENCY,
            "SubAccountId": invoice.team,
            "SubAccountType": "Team",
            "x_InvoiceState": invoice.state.value,
            "x_PoolInvoiceId": self.pool_invoices.get(
                (invoice.pool, invoice.start_ms, invoice.end_ms)
            ),
        }
        return row

    def _of_line(
        self, line: ChargeRated | ChargeCredited, place: Place, start_ms: int, end_ms: int
    ) -> Row:
        row = self._of_invoice(place.invoice)
        row |= {
            "ChargeClass": CORRECTION if place.is_correction else None,
            "ChargePeriodStart": instant(start_ms),
            "ChargePeriodEnd": instant(end_ms),
            "ChargeFrequency": "Usage-Based",
            "ResourceId": f"{line.team}/{line.job}",
            "ResourceName": line.job,
            "ResourceType": "Job",
            "SkuId": line.market,
            "SkuPriceId": line.market,
            "SkuMeter": "Accelerator time",
            "x_ChargeId": line.charge_id,
            "x_Lease": line.lease,
            "x_Node": line.node,
            "x_Attempt": line.attempt,
            "x_Sequence": line.seq,
            "x_MaccMs": Decimal(line.quantity_macc * (end_ms - start_ms)),
            "x_TariffPpm": line.tariff_ppm,
        }
        if place.is_correction and place.home is not None:
            row["x_CorrectsInvoiceId"] = place.home.invoice_id
            row["x_OriginalPeriodStart"] = instant(place.home.start_ms)
        return row

    def _of_charge(self, line: ChargeRated, price_micro: int | None, length_ms: int) -> Row:
        macc_ms = line.quantity_macc * length_ms
        price = None if price_micro is None else unit_price(price_micro, line.tariff_ppm)
        return {
            "ChargeCategory": "Usage",
            "PricingCategory": "Standard" if _is_free(line) else "Dynamic",
            "PricingQuantity": accelerator_hours(macc_ms),
            "PricingUnit": PRICING_UNIT,
            "ConsumedQuantity": accelerator_seconds(macc_ms),
            "ConsumedUnit": CONSUMED_UNIT,
            "ContractedUnitPrice": price,
            "PricingCurrencyContractedUnitPrice": price,
            "x_Billable": line.billable,
            "x_ClearingPrice": None if price_micro is None else credits_of_micro(price_micro),
            "x_PriceState": "unknown" if price_micro is None else "rated",
            "x_WorkClass": line.work_class.value,
        }


def instant(time_ms: int) -> datetime:
    """Return a market time."""
    return EPOCH + timedelta(milliseconds=time_ms)


def billed_units(row: Row) -> int:
    """Return the billed cost of a row in its last decimal."""
    sign, digits, _ = row["BilledCost"].as_tuple()
    units = int("".join(str(digit) for digit in digits))
    return -units if sign else units


def split_parts(
    start_ms: int, end_ms: int, price_micro: int, pieces: Iterator[tuple[int, int, int | None]]
) -> Iterator[Part]:
    """Cut a piece of a charge where the reference price changes; equal neighbours stay one."""
    open_ms, reference, is_open = start_ms, None, False
    for piece_ms, _, told in pieces:
        if is_open and told != reference:
            yield Part(open_ms, piece_ms, price_micro, reference)
            open_ms = piece_ms
        reference, is_open = told, True
    yield Part(open_ms, end_ms, price_micro, reference)


def _costs(amount: Decimal, list_amount: Decimal, numerator: str) -> Row:
    return {
        "BilledCost": amount,
        "ContractedCost": amount,
        "EffectiveCost": amount,
        "PricingCurrencyEffectiveCost": amount,
        "ListCost": list_amount,
        "x_AmountNumerator": numerator,
    }


def _weight(line: ChargeRated) -> int:
    return line.tariff_ppm * line.quantity_macc


def _is_free(line: ChargeRated) -> bool:
    return line.work_class is WorkClass.OPPORTUNISTIC or not line.billable


def _described(line: ChargeRated) -> str:
    if line.work_class is WorkClass.OPPORTUNISTIC:
        return "Opportunistic use"
    if not line.billable:
        return "Unbilled use"
    return "Use while draining" if line.work_class is WorkClass.OVERHANG else "Use"


def _reason(row: Row) -> str:
    return str(row["x_CorrectionReason"]).replace("_", " ")
