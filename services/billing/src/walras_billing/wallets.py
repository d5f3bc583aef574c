"""A team's wallet: the fold of its ledger entries, over the pools that it is or was in.

Totals are exact; µcr come from rounding the running totals, so that rounding never depends on how
amounts were grouped.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from walras_billing.rating import RATE_DENOMINATOR
from walras_billing.running_totals import Amount, RunningTotal
from walras_billing.spending import Spending
from walras_contracts.money import StopReason

NO_STOP: Final = StopReason.NONE
"""No reason: a member of an enumeration takes several times as long to look up as a name."""
Sums = tuple[int, int, int, int, int]
"""What the entries of a wallet sum to, µcr: what it has (may be negative), then what it earned,
spent and got back, and what expired."""


class PoolAccount:
    """Running totals of one team in one pool.

    ``spent_numerator`` and ``credited_numerator`` count all charge lines and credits so far, over
    :data:`RATE_DENOMINATOR`; of them the ``posted`` ones are in the ledger. Incomes and expiries
    are posted as they arise.
    """

    __slots__ = (
        "credited_numerator",
        "credited_posted",
        "earned",
        "expired_micro",
        "spent_numerator",
        "spent_posted",
    )

    def __init__(self, earned: Amount = (0, 1), totals: Sequence[int] = (0, 0, 0, 0, 0)) -> None:
        """Take what was earned, and the other totals in the order of :meth:`text`."""
        spent_numerator, spent_posted, credited_numerator, credited_posted, expired = totals
        self.earned = RunningTotal(*earned)
        self.spent_numerator = spent_numerator
        self.spent_posted = RunningTotal(spent_posted, RATE_DENOMINATOR)
        self.credited_numerator = credited_numerator
        self.credited_posted = RunningTotal(credited_posted, RATE_DENOMINATOR)
        self.expired_micro = expired

    def text(self) -> str:
        """Return it as a JSON array of plain numbers."""
        earned = self.earned
        return (
            f"[{earned.numerator},{earned.denominator},"
            f"{self.spent_numerator},{self.spent_posted.numerator},"
            f"{self.credited_numerator},{self.credited_posted.numerator},{self.expired_micro}]"
        )


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
    reason: StopReason = NO_STOP
    spending: Spending = field(default_factory=Spending)
    told: str = ""

    def account(self, pool: str) -> PoolAccount:
        """Return the running totals in a pool, from 0 on."""
        account = self.accounts.get(pool)
        if account is None:
            account = self.accounts[pool] = PoolAccount()
        return account

    def by_pool(self) -> Iterable[tuple[str, PoolAccount]]:
        """Return the running totals by pool, in id order."""
        accounts = self.accounts.items()
        return sorted(accounts) if len(accounts) > 1 else accounts

    def sums(self) -> Sums:
        """Return what its entries of all pools sum to."""
        earned = spent = credited = expired = 0
        for account in self.accounts.values():
            earned += account.earned.rounded
            spent += account.spent_posted.rounded
            credited += account.credited_posted.rounded
            expired += account.expired_micro
        return earned - spent + credited - expired, earned, spent, credited, expired

    def dump(self) -> bytes:
        """Return the wallet as one record of the state topic."""
        # Names of pools need no escaping by their pattern, nor does what was told.
        accounts = ",".join([f'"{pool}":{account.text()}' for pool, account in self.by_pool()])
        reason = "none" if self.reason is NO_STOP else self.reason.value
        return (
            f'["{self.pool}",{{{accounts}}},{"true" if self.is_empty else "false"},'
            f'"{reason}",{self.spending.text()},"{self.told}"]'
        ).encode()

    @staticmethod
    def parse(team: str, value: bytes) -> "Wallet":
        """Read a record of the state topic."""
        pool, accounts, is_empty, reason, spending, told = json.loads(value)
        return Wallet(
            team,
            pool,
            {
                name: PoolAccount((numerator, denominator), totals)
                for name, (numerator, denominator, *totals) in accounts.items()
            },
            is_empty,
            StopReason(reason),
            Spending.parse(spending),
            told,
        )
