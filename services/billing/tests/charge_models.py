"""A charge line by its model: what the bytes that billing writes are compared with."""

from walras_billing.rating import ChargeLine
from walras_billing.usage_line import UsageLine
from walras_contracts.charges import ChargeRated


def charge_event(line: UsageLine, charge: ChargeLine) -> ChargeRated:
    """Return a charge or correction of a usage record as an event."""
    terms = line.terms
    return ChargeRated(
        team=terms.team,
        pool=terms.pool,
        job=terms.job,
        market=terms.market,
        lease=terms.lease,
        node=terms.node,
        attempt=terms.attempt,
        seq=line.seq,
        quantity_macc=terms.quantity_macc,
        start_ms=charge.start_ms,
        end_ms=charge.end_ms,
        limit_micro=terms.limit_micro,
        tariff_ppm=terms.tariff_ppm,
        prices_until_ms=line.until_ms,
        charge_id=charge.charge_id,
        corrects=charge.corrects,
        reason=charge.reason,
        work_class=terms.work_class,
        billable=terms.billable,
        price_micro=charge.price_micro,
        previous_price_micro=charge.previous_price_micro,
        price_barrier=charge.price_barrier,
        amount_numerator=str(charge.amount_numerator),
    )
