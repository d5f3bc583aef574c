"""What billing publishes: wallets and budgets as of a settlement boundary."""

from typing import ClassVar

from walras_contracts.event import Event
from walras_contracts.identifiers import Id
from walras_contracts.quantities import MarketTimeMs, Micro


class BalancePublished(Event):
    """A team's wallet as it stood when boundary ``boundary_ms`` was settled."""

    TYPE: ClassVar[str] = "walras.balance.published.v1"
    TOPIC: ClassVar[str] = "balances"

    team: Id
    pool: Id
    boundary_ms: MarketTimeMs
    wallet_micro: Micro
    earned_micro: Micro
    """All income minted so far."""
    spent_micro: Micro
    """All use charged so far."""
    expired_micro: Micro
    """All income lost to the cap of the wallet so far."""

    def record_key(self) -> str:
        """Key: the team."""
        return self.team

    def partition_key(self) -> str:
        """By team."""
        return self.team


class BudgetPublished(Event):
    """Whether a team may still bid."""

    TYPE: ClassVar[str] = "walras.budget.published.v1"
    TOPIC: ClassVar[str] = "budgets"

    team: Id
    boundary_ms: MarketTimeMs
    exhausted: bool

    def record_key(self) -> str:
        """Key: the team."""
        return self.team

    def partition_key(self) -> str:
        """By team."""
        return self.team
