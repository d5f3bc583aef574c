"""Ledger entries: double entry in whole µcr, from exact running totals.

An entry moves what the rounded running total of its kind grew by. The wallet's side is rounded
half to even, the other side towards zero, and ``rounding`` takes what is left; so the sum of all
entries of a kind depends on its total alone, however it was grouped.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import gcd
from typing import Final, NamedTuple

from walras_billing.rating import RATE_DENOMINATOR, round_half_even
from walras_billing.wallets import PoolAccount
from walras_contracts.identifiers import digest_of
from walras_contracts.ledger import EntryKind, LedgerEntryPosted, bounded
from walras_runtime.records import Output


class _Sides(NamedTuple):
    """The account on the other side of a wallet, and whether the wallet gains."""

    counter: str
    wallet_sign: int


SIDES: Final[Mapping[EntryKind, _Sides]] = {
    EntryKind.INCOME: _Sides("mint", 1),
    EntryKind.USAGE: _Sides("revenue", -1),
    EntryKind.CREDIT: _Sides("credits", 1),
    EntryKind.EXPIRY: _Sides("expired", -1),
}
"""In the order in which the entries of a team and pool are written."""


class Total(NamedTuple):
    """An exact running total, µcr; the denominator is positive."""

    numerator: int
    denominator: int

    @property
    def rounded(self) -> int:
        """In whole µcr, halves to the even one."""
        return round_half_even(self.numerator, self.denominator)

    @property
    def truncated(self) -> int:
        """In whole µcr, towards zero."""
        if self.numerator < 0:
            return -(-self.numerator // self.denominator)
        return self.numerator // self.denominator


class Entry(NamedTuple):
    """One entry before it is written: its total afterwards, and its lines by account."""

    kind: EntryKind
    pool: str
    exact: Total
    lines: tuple[tuple[str, int], ...]


def entry_of(kind: EntryKind, team: str, pool: str, before: Total, after: Total) -> Entry | None:
    """Return the entry that takes a running total from what was posted to what it is now.

    None: no account changes by a whole µcr.
    """
    counter_name, sign = SIDES[kind]
    wallet = sign * (after.rounded - before.rounded)
    counter = sign * (before.truncated - after.truncated)
    left = -wallet - counter
    # By account name, as the contract wants: each of the other sides comes before "rounding".
    lines: tuple[tuple[str, int], ...] = (
        (f"{counter_name}/{pool}", counter),
        (f"rounding/{pool}", left),
        (f"wallet/{team}", wallet),
    )
    if not (counter and left and wallet):
        lines = tuple([line for line in lines if line[1]])
    return Entry(kind, pool, after, lines) if lines else None


def post_totals(account: PoolAccount, team: str, pool: str, income: Fraction | None) -> list[Entry]:
    """Post the income of an interval, and what was charged and credited since the last entries.

    Parameters
    ----------
    account
        Running totals of the team in the pool; afterwards all of it is posted.
    team, pool
        Whose they are.
    income
        What was earned in the interval; None: nothing.
    """
    found: list[Entry | None] = []
    if income:
        before, after = account.earned, bounded(account.earned + income)
        account.earn(after)
        found.append(entry_of(EntryKind.INCOME, team, pool, _total(before), _total(after)))
    spent, posted = account.spent_numerator, account.spent_posted
    if spent != posted:
        account.post_spent()
        found.append(entry_of(EntryKind.USAGE, team, pool, _charged(posted), _charged(spent)))
    credited, posted = account.credited_numerator, account.credited_posted
    if credited != posted:
        account.post_credited()
        found.append(entry_of(EntryKind.CREDIT, team, pool, _charged(posted), _charged(credited)))
    return [entry for entry in found if entry is not None]


def post_expiry(account: PoolAccount, team: str, pool: str, excess_micro: int) -> Entry | None:
    """Let a whole amount expire; None: there is nothing to expire."""
    if excess_micro <= 0:
        return None
    before = account.expired_micro
    account.expired_micro += excess_micro
    after = account.expired_micro
    return entry_of(EntryKind.EXPIRY, team, pool, Total(before, 1), Total(after, 1))


def entry_output(entry: Entry, team: str, boundary_ms: int, partition: int) -> Output:
    """Return an entry as it goes to ``ledger``.

    The payload is that of :class:`LedgerEntryPosted`, made without building the model: a
    settlement writes entries by the hundred thousand. Names need no escaping by their pattern.
    """
    kind, pool, (numerator, denominator), lines = entry
    name = digest_of("ledger", kind, team, pool, str(boundary_ms))
    common = gcd(numerator, denominator)
    moved = ",".join([f'{{"account":"{where}","amount_micro":{micro}}}' for where, micro in lines])
    exact = f"{numerator // common}/{denominator // common}"
    payload = (
        f'{{"entry_id":"{name}","kind":"{kind}","team":"{team}","pool":"{pool}",'
        f'"boundary_ms":{boundary_ms},"exact_total":"{exact}",'
        f'"lines":[{moved}]}}'
    )
    return Output(
        LedgerEntryPosted.TOPIC, name, team, LedgerEntryPosted.TYPE, payload.encode(), partition
    )


def _total(exact: Fraction) -> Total:
    return Total(exact.numerator, exact.denominator)


def _charged(numerator: int) -> Total:
    return Total(numerator, RATE_DENOMINATOR)
