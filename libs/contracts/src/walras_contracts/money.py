"""What billing publishes of teams: wallets, budgets, alerts."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from walras_contracts.accounts import BillingPeriod
from walras_contracts.event import Event, Part
from walras_contracts.identifiers import Id
from walras_contracts.quantities import MarketTimeMs, Micro, Ppm


class BalancePublished(Event):
    """A team's wallet as it stood when boundary ``boundary_ms`` was settled."""

    TYPE: ClassVar[str] = "walras.balance.published.v1"
    TOPIC: ClassVar[str] = "balances"

    team: Id
    pool: Id
    boundary_ms: MarketTimeMs
    wallet_micro: Micro
    """earned − spent + credited − expired."""
    earned_micro: Micro
    """All income minted so far."""
    spent_micro: Micro
    """All use charged so far."""
    credited_micro: Micro
    """All goodwill so far."""
    expired_micro: Micro
    """All income lost to the cap of the wallet so far."""

    def record_key(self) -> str:
        """Key: the team."""
        return self.team

    def partition_key(self) -> str:
        """By team."""
        return self.team


class StopReason(StrEnum):
    """Why a team may not spend."""

    NONE = "none"
    WALLET = "wallet"
    """Its wallet is empty and it has no income."""
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    """The hard stop of a budget of that window is reached."""


class BudgetState(Part):
    """One budget of a team in the window that is running."""

    window: Annotated[BillingPeriod, Field(strict=False)]
    start_ms: MarketTimeMs
    end_ms: MarketTimeMs
    limit_micro: Micro
    spent_micro: Micro
    """What use within the window is known to cost, its unrated part at the newest price."""
    hard_stop: bool


class BudgetPublished(Event):
    """Whether a team may still spend, and how its budgets stand.

    Written when what it says changes, ``exhausted`` at once; of a team that has budgets, with its
    figures, at each settlement.
    """

    TYPE: ClassVar[str] = "walras.budget.published.v1"
    TOPIC: ClassVar[str] = "budgets"

    team: Id
    pool: Id
    boundary_ms: MarketTimeMs
    """The last settled boundary."""
    at_ms: MarketTimeMs
    """Market time of the step."""
    exhausted: bool
    reason: Annotated[StopReason, Field(strict=False)]
    budgets: Annotated[tuple[BudgetState, ...], Field(strict=False)]

    def record_key(self) -> str:
        """Key: the team."""
        return self.team

    def partition_key(self) -> str:
        """By team."""
        return self.team


class BudgetAlerted(Event):
    """A team's spending passed a threshold of a budget: once a window and threshold."""

    TYPE: ClassVar[str] = "walras.budget.alerted.v1"
    TOPIC: ClassVar[str] = "budgets.alerts"

    team: Id
    pool: Id
    threshold_ppm: Ppm
    budget: BudgetState
    at_ms: MarketTimeMs

    def record_key(self) -> str:
        """Key: the team, window and threshold."""
        budget = self.budget
        return f"{self.team}/{budget.window.value}/{budget.start_ms}/{self.threshold_ppm}"

    def partition_key(self) -> str:
        """By team."""
        return self.team
