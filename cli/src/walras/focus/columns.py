"""The columns of the export, in their order: those of FOCUS 1.2, then our own (``x_``).

Amounts are decimals with 18 places: costs and quantities rounded half to even to the last of them,
unit prices exact. ``x_AmountNumerator`` (text) and ``x_MaccMs`` are exact:
price x tariff_ppm x macc x ms, of which 3.6e15 make a micro-credit.
"""

from typing import Final

import pyarrow as pa

PLACES: Final = 18
"""Decimals of costs, quantities and unit prices."""
DECIMAL: Final = pa.decimal128(38, PLACES)
WHOLE: Final = pa.decimal128(38, 0)
TIME: Final = pa.timestamp("ms", tz="UTC")
TEXT: Final = pa.string()
INTEGER: Final = pa.int64()

MANDATORY: Final = (
    ("BilledCost", DECIMAL),
    ("BillingAccountId", TEXT),
    ("BillingAccountName", TEXT),
    ("BillingCurrency", TEXT),
    ("BillingPeriodEnd", TIME),
    ("BillingPeriodStart", TIME),
    ("ChargeCategory", TEXT),
    ("ChargeClass", TEXT),
    ("ChargeDescription", TEXT),
    ("ChargePeriodEnd", TIME),
    ("ChargePeriodStart", TIME),
    ("ContractedCost", DECIMAL),
    ("EffectiveCost", DECIMAL),
    ("InvoiceIssuerName", TEXT),
    ("ListCost", DECIMAL),
    ("PricingQuantity", DECIMAL),
    ("PricingUnit", TEXT),
    ("ProviderName", TEXT),
    ("PublisherName", TEXT),
    ("ServiceCategory", TEXT),
    ("ServiceName", TEXT),
)
"""Of FOCUS 1.2; of BillingAccountName and ChargeClass all or some are null, as the format says."""
ADDED: Final = (
    ("InvoiceId", TEXT),
    ("ChargeFrequency", TEXT),
    ("ConsumedQuantity", DECIMAL),
    ("ConsumedUnit", TEXT),
    ("ContractedUnitPrice", DECIMAL),
    ("ListUnitPrice", DECIMAL),
    ("PricingCategory", TEXT),
    ("PricingCurrency", TEXT),
    ("PricingCurrencyContractedUnitPrice", DECIMAL),
    ("PricingCurrencyEffectiveCost", DECIMAL),
    ("PricingCurrencyListUnitPrice", DECIMAL),
    ("ResourceId", TEXT),
    ("ResourceName", TEXT),
    ("ResourceType", TEXT),
    ("SkuId", TEXT),
    ("SkuMeter", TEXT),
    ("SkuPriceId", TEXT),
    ("SubAccountId", TEXT),
    ("SubAccountType", TEXT),
)
"""Of FOCUS 1.2, where they have a meaning here: no regions, reservations, tags, display names."""
OWN: Final = (
    ("x_AmountNumerator", TEXT),
    ("x_Attempt", INTEGER),
    ("x_Billable", pa.bool_()),
    ("x_ChargeId", TEXT),
    ("x_ClearingPrice", DECIMAL),
    ("x_CorrectionReason", TEXT),
    ("x_CorrectsChargeId", TEXT),
    ("x_CorrectsInvoiceId", TEXT),
    ("x_DrainSession", TEXT),
    ("x_InvoiceState", TEXT),
    ("x_Lease", TEXT),
    ("x_MaccMs", WHOLE),
    ("x_Node", TEXT),
    ("x_OriginalPeriodStart", TIME),
    ("x_PoolInvoiceId", TEXT),
    ("x_PriceState", TEXT),
    ("x_ReferencePrice", DECIMAL),
    ("x_Sequence", INTEGER),
    ("x_TariffPpm", INTEGER),
    ("x_WorkClass", TEXT),
)
SCHEMA: Final = pa.schema([*MANDATORY, *ADDED, *OWN])
NAMES: Final = tuple(SCHEMA.names)
