"""The stage: one table from event type to what is done with it, and the order of a step."""

from collections.abc import Callable, Mapping
from typing import Final

from walras_contracts.charges import ChargeCredited, ChargeRated, UsageQuarantined
from walras_contracts.event import Event
from walras_contracts.invoices import InvoiceRequested
from walras_contracts.ledger import LedgerEntryPosted
from walras_invoicing.core import (
    Work,
    begin,
    forget_old,
    publish,
    take_entry,
    take_quarantined,
)
from walras_invoicing.state import InvoicingState
from walras_runtime.records import Record, Step, StepResult, emit

Handler = Callable[[Work, Event], None]


def on_rated(work: Work, event: Event) -> None:
    """Put a charge on an invoice."""
    assert isinstance(event, ChargeRated)
    work.charging.take_rated(event)


def on_credited(work: Work, event: Event) -> None:
    """Put a credit on an invoice."""
    assert isinstance(event, ChargeCredited)
    work.charging.take_credit(event)


def on_quarantined(work: Work, event: Event) -> None:
    """Report use that was rejected as late."""
    assert isinstance(event, UsageQuarantined)
    take_quarantined(work, event)


def on_entry(work: Work, event: Event) -> None:
    """Compare an entry of the ledger with the charges."""
    assert isinstance(event, LedgerEntryPosted)
    take_entry(work, event)


def on_requested(work: Work, event: Event) -> None:
    """Do what finance asks for, or say why not."""
    assert isinstance(event, InvoiceRequested)
    refused = work.desk.take(event)
    if refused is not None:
        work.outputs.append(refused)


HANDLERS: Final[Mapping[str, Handler]] = {
    ChargeRated.TYPE: on_rated,
    ChargeCredited.TYPE: on_credited,
    UsageQuarantined.TYPE: on_quarantined,
    LedgerEntryPosted.TYPE: on_entry,
    InvoiceRequested.TYPE: on_requested,
}
TOPICS: Final = (
    ChargeRated.TOPIC,
    UsageQuarantined.TOPIC,
    LedgerEntryPosted.TOPIC,
    InvoiceRequested.TOPIC,
)
"""In the order in which a step takes them."""


class InvoicingStage:
    """Invoicing as the loop runs it, a single leader."""

    def __init__(self) -> None:
        self.state = InvoicingState()

    def fold(self, record: Record) -> None:
        """Take a version of an account, or a part of use that waits for its price."""
        self.state.fold(record)

    def load(self, key: str, value: bytes) -> None:
        """Take back one record of the state topic."""
        self.state.load(key, value)

    def step(self, step: Step) -> StepResult:
        """Take what was charged and asked, issue what is due, publish what is new."""
        state = self.state
        state.resume()
        work = begin(state, step.barrier.market_time_ms)
        for topic in TOPICS:
            for record in step.records[topic]:
                handle = None if record.event is None else HANDLERS.get(record.event.TYPE)
                if handle is not None and record.event is not None:
                    handle(work, record.event)
        work.desk.issue_due()
        publish(work)
        forget_old(work)
        state.clock_ms = work.now_ms
        return StepResult([emit(event) for event in work.outputs], [*state.changes()])
