"""How invoicing is wired to the log."""

from walras_contracts.accounts import AccountsChanged
from walras_contracts.charges import ChargePending, ChargeRated, UsageQuarantined
from walras_contracts.invoices import InvoicePublished, InvoiceRequested
from walras_contracts.ledger import LedgerEntryPosted
from walras_invoicing.handlers import InvoicingStage
from walras_invoicing.settings import Settings
from walras_runtime.stage import Input, StageSpec


def build(settings: Settings) -> StageSpec:
    """Return invoicing's wiring; the settings do not change it."""
    del settings
    return StageSpec(
        service=Settings.SERVICE,
        inputs=(
            Input(AccountsChanged.TOPIC, table=True, may_be_late=False),
            Input(ChargePending.TOPIC, table=True, may_be_late=False),
            Input(ChargeRated.TOPIC, may_be_late=False),
            Input(UsageQuarantined.TOPIC, may_be_late=False),
            Input(LedgerEntryPosted.TOPIC, may_be_late=False),
            Input(InvoiceRequested.TOPIC, may_be_late=False),
        ),
        outputs=(InvoicePublished.TOPIC,),
        build=lambda _: InvoicingStage(),
    )
