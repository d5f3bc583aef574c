"""What finance asks for in a chaos run: invoices held, released and voided, each request twice."""

from typing import Final

from tests.chaos.leases import teams_of
from walras_contracts.accounts import BillingPeriod
from walras_contracts.calendar_periods import period_of
from walras_contracts.event import Event
from walras_contracts.identifiers import digest_of
from walras_contracts.invoices import InvoiceAction, InvoiceRequested

PERIOD: Final = BillingPeriod.HOUR


def requests_of(pool: str, zone: str, at_ms: int, draw: int) -> dict[InvoiceAction, list[Event]]:
    """Return what is asked for of the running hour's invoice of a team, or of a pool."""
    teams = ("", *teams_of(pool))
    team = teams[draw // 7 % len(teams)]
    start_ms, _ = period_of(PERIOD, zone, at_ms)
    invoice = _invoice(pool, team, zone, start_ms)
    return {
        action: [_request(invoice, action)] * 2
        for action in (InvoiceAction.HOLD, InvoiceAction.RELEASE, InvoiceAction.VOID)
    }


def _invoice(pool: str, team: str, zone: str, start_ms: int) -> str:
    """Return the id of an invoice; ``team`` empty: that of the pool."""
    scope = "team" if team else "pool"
    return digest_of("invoice", scope, pool, team, PERIOD.value, zone, str(start_ms))


def _request(invoice_id: str, action: InvoiceAction) -> Event:
    return InvoiceRequested(invoice_id=invoice_id, action=action, reason="asked for by the story")
