"""How billing is wired to the log."""

from walras_billing.core import Rules
from walras_billing.handlers import BillingStage
from walras_billing.settings import Settings
from walras_contracts.accounts import AccountsChanged
from walras_contracts.charges import ChargePending, ChargeRated, UsageQuarantined
from walras_contracts.ledger import LedgerEntryPosted
from walras_contracts.market import PricePublished
from walras_contracts.money import BalancePublished, BudgetAlerted, BudgetPublished
from walras_contracts.topics import load_topics
from walras_contracts.usage_settled import UsageSettled
from walras_contracts.work import DrainStatusChanged, UsageMetered
from walras_runtime.stage import Input, StageSpec


def build(settings: Settings) -> StageSpec:
    """Return the stage's wiring: one stage per partition of teams."""
    partitions = load_topics(settings.partitions)[BalancePublished.TOPIC].partitions
    rules = Rules(
        settings.price_grace_ms,
        settings.look_back_ms,
        settings.future_tolerance_ms,
        settings.max_price_age_ms,
        settings.price_wait_ms,
    )
    return StageSpec(
        service=Settings.SERVICE,
        inputs=(
            Input(UsageMetered.TOPIC, own_partition=True, raw=True, may_be_late=False),
            Input(DrainStatusChanged.TOPIC, own_partition=True, may_be_late=False),
            Input(PricePublished.TOPIC, may_be_late=False),
            Input(AccountsChanged.TOPIC, table=True, may_be_late=False),
        ),
        outputs=(
            ChargeRated.TOPIC,
            ChargePending.TOPIC,
            UsageQuarantined.TOPIC,
            UsageSettled.TOPIC,
            LedgerEntryPosted.TOPIC,
            BalancePublished.TOPIC,
            BudgetPublished.TOPIC,
            BudgetAlerted.TOPIC,
        ),
        build=lambda partition: BillingStage(partition, partitions, rules),
        spread=True,
    )
