"""A team's wallet: the fold of its ledger entries, over the pools that it is or was in.

``earned`` and the numerators are exact; µcr come from rounding the running totals, so that
rounding never depends on how amounts were grouped.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from walras_billing.rating import RATE_DENOMINATOR, round_half_even
from walras_billing.spending import Spending
from walras_contracts.money import StopReason

_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(slots=True)
class PoolAccount:
    """Running totals of one team in one pool.

    ``spent_numerator`` and ``credited_numerator`` count all charge lines and credits so far; of
    them the ``posted`` ones are in the ledger. Incomes and expiries are posted as they arise. The
    amounts in µcr are the posted totals as rounded for the wallet.
    """

    earned: Fraction = field(default_factory=Fraction)
    spent_numerator: int = 0
    spent_posted: int = 0
    credited_numerator: int = 0
    credited_posted: int = 0
    expired_micro: int = 0
    earned_micro: int = field(init=False, default=0)
    spent_micro: int = field(init=False, default=0)
    credited_micro: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.earn(self.earned)
        self.spent_micro = round_half_even(self.spent_posted, RATE_DENOMINATOR)
        self.credited_micro = round_half_even(self.credited_posted, RATE_DENOMINATOR)

    @property
    def wallet_micro(self) -> int:
        """What the entries of this pool put into the wallet; may be negative."""
        return self.earned_micro - self.spent_micro + self.credited_micro - self.expired_micro

    def earn(self, total: Fraction) -> None:
        """Take a new total of incomes."""
        self.earned = total
        self.earned_micro = round_half_even(total.numerator, total.denominator)

    def post_spent(self) -> None:
        """Count all charges so far as posted."""
        self.spent_posted = self.spent_numerator
        self.spent_micro = round_half_even(self.spent_posted, RATE_DENOMINATOR)

    def post_credited(self) -> None:
        """Count all credits so far as posted."""
        self.credited_posted = self.credited_numerator
        self.credited_micro = round_half_even(self.credited_posted, RATE_DENOMINATOR)

    def fields(self) -> list[int]:
        """Return it as plain numbers."""
        return [
            self.earned.numerator,
            self.earned.denominator,
            self.spent_numerator,
            self.spent_posted,
            self.credited_numerator,
            self.credited_posted,
            self.expired_micro,
        ]


@dataclass(slots=True)
class Wallet:
    """What one team has, and how its spending stands.

    ``pool`` is the one that it is in, or was in last. ``is_empty``: at the last settlement it had
    nothing and no income. ``reason`` is why it may not spend. ``told`` is what its last record on
    ``budgets`` says besides figures; empty: there is none.
    """

    team: str
    pool: str
    accounts: dict[str, PoolAccount] = field(default_factory=dict)
    is_empty: bool = False
    reason: StopReason = StopReason.NONE
    spending: Spending = field(default_factory=Spending)
    told: str = ""

    def account(self, pool: str) -> PoolAccount:
        """Return the running totals in a pool, from 0 on."""
        account = self.accounts.get(pool)
        if account is None:
            account = self.accounts[pool] = PoolAccount()
        return account

    def by_pool(self) -> Iterator[tuple[str, PoolAccount]]:
        """Yield the running totals by pool, in id order."""
        yield from sorted(self.accounts.items())

    @property
    def wallet_micro(self) -> int:
        """What it has; may be negative."""
        return sum(account.wallet_micro for account in self.accounts.values())

    def dump(self) -> bytes:
        """Return the wallet as one record of the state topic."""
        fields = [
            self.pool,
            {pool: account.fields() for pool, account in self.by_pool()},
            self.is_empty,
            self.reason.value,
            self.spending.fields(),
            self.told,
        ]
        return _ENCODE(fields).encode()

    @staticmethod
    def parse(team: str, value: bytes) -> "Wallet":
        """Read a record of the state topic."""
        pool, accounts, is_empty, reason, spending, told = json.loads(value)
        return Wallet(
            team,
            pool,
            {
                name: PoolAccount(Fraction(numerator, denominator), *totals)
                for name, (numerator, denominator, *totals) in accounts.items()
            },
            is_empty,
            StopReason(reason),
            Spending.parse(spending),
            told,
        )
