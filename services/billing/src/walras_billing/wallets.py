"""A team's wallet: earned − spent − expired, each a cumulative exact amount (design §6)."""

import json
from dataclasses import dataclass, field
from fractions import Fraction

from walras_billing.rating import RATE_DENOMINATOR, round_half_even
from walras_contracts.money import BalancePublished, BudgetPublished, StopReason


@dataclass(slots=True)
class Wallet:
    """What one team earned, spent and lost so far.

    ``earned`` and ``spent_numerator`` are exact; µcr come from rounding the running totals, so
    that rounding never depends on how amounts were grouped. The denominator of ``earned`` grows
    only with the number of different C of the team's pool.
    """

    team: str
    pool: str
    earned: Fraction = field(default_factory=Fraction)
    spent_numerator: int = 0
    expired_micro: int = 0

    @property
    def earned_micro(self) -> int:
        """All income so far."""
        return round_half_even(self.earned.numerator, self.earned.denominator)

    @property
    def spent_micro(self) -> int:
        """All charges so far."""
        return round_half_even(self.spent_numerator, RATE_DENOMINATOR)

    @property
    def wallet_micro(self) -> int:
        """What it has; may be negative."""
        return self.earned_micro - self.spent_micro - self.expired_micro

    def cap(self, cap_micro: int) -> None:
        """Let expire what exceeds a cap."""
        self.expired_micro += max(0, self.wallet_micro - cap_micro)

    def balance(self, boundary_ms: int) -> BalancePublished:
        """Return the wallet as of a settled boundary."""
        return BalancePublished(
            team=self.team,
            pool=self.pool,
            boundary_ms=boundary_ms,
            wallet_micro=self.wallet_micro,
            earned_micro=self.earned_micro,
            spent_micro=self.spent_micro,
            credited_micro=0,
            expired_micro=self.expired_micro,
        )

    def budget(self, boundary_ms: int, at_ms: int, has_income: bool) -> BudgetPublished:
        """Return whether it may bid: not with an empty wallet and no income."""
        exhausted = self.wallet_micro <= 0 and not has_income
        return BudgetPublished(
            team=self.team,
            pool=self.pool,
            boundary_ms=boundary_ms,
            at_ms=at_ms,
            exhausted=exhausted,
            reason=StopReason.WALLET if exhausted else StopReason.NONE,
            budgets=(),
        )

    def dump(self) -> bytes:
        """Return the wallet as one record of the state topic."""
        fields = [
            self.pool,
            self.earned.numerator,
            self.earned.denominator,
            self.spent_numerator,
            self.expired_micro,
        ]
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def parse(team: str, value: bytes) -> "Wallet":
        """Read a record of the state topic."""
        pool, numerator, denominator, spent, expired = json.loads(value)
        return Wallet(team, pool, Fraction(numerator, denominator), spent, expired)
