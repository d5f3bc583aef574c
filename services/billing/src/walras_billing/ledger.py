"""Ledger entries: double entry in whole µcr, from exact running totals.

An entry moves what the rounded running total of its kind grew by. The wallet's side is rounded
half to even, the other side towards zero, and ``rounding`` takes what is left; so the sum of all
entries of a kind depends on its total alone, however it was grouped.
"""

from collections.abc import Mapping
from math import gcd
from typing import Final, NamedTuple

from walras_billing.rating import RATE_DENOMINATOR
from walras_billing.running_totals import Amount
from walras_billing.wallets import PoolAccount
from walras_contracts.identifiers import bordered, digest_of_bordered
from walras_contracts.ledger import EntryKind, LedgerEntryPosted
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


class Entry(NamedTuple):
    """One entry before it is written: its total afterwards, and its lines by account."""

    kind: EntryKind
    pool: str
    exact: Amount
    lines: tuple[tuple[str, int], ...]


def entry_of(
    kind: EntryKind, team: str, pool: str, by: tuple[int, int], exact: Amount
) -> Entry | None:
    """Return the entry of a running total that changed; None: no account does by a whole µcr.

    Parameters
    ----------
    kind, team, pool
        What the total counts, and whose it is.
    by
        How much it changed, rounded and truncated (:class:`RunningTotal`).
    exact
        The total as it is now.
    """
    counter_name, sign = SIDES[kind]
    wallet, counter = (by[0], -by[1]) if sign > 0 else (-by[0], by[1])
    left = -wallet - counter
    # By account name, as the contract wants: each of the other sides comes before "rounding".
    lines: tuple[tuple[str, int], ...] = (
        (f"{counter_name}/{pool}", counter),
        (f"rounding/{pool}", left),
        (f"wallet/{team}", wallet),
    )
    if not (counter and left and wallet):
        lines = tuple([line for line in lines if line[1]])
    return Entry(kind, pool, exact, lines) if lines else None


def post_totals(account: PoolAccount, team: str, pool: str, income: Amount | None) -> list[Entry]:
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
    if income is not None and income[0]:
        by, earned = account.earned.add(income), account.earned
        exact = earned.numerator, earned.denominator
        found.append(entry_of(EntryKind.INCOME, team, pool, by, exact))
    spent, posted = account.spent_numerator, account.spent_posted
    if spent != posted.numerator:
        by = posted.move_to(spent, RATE_DENOMINATOR)
        found.append(entry_of(EntryKind.USAGE, team, pool, by, (spent, RATE_DENOMINATOR)))
    credited, posted = account.credited_numerator, account.credited_posted
    if credited != posted.numerator:
        by = posted.move_to(credited, RATE_DENOMINATOR)
        found.append(entry_of(EntryKind.CREDIT, team, pool, by, (credited, RATE_DENOMINATOR)))
    return [entry for entry in found if entry is not None]


def post_expiry(account: PoolAccount, team: str, pool: str, excess_micro: int) -> Entry | None:
    """Let a whole amount expire; None: there is nothing to expire."""
    if excess_micro <= 0:
        return None
    account.expired_micro += excess_micro
    by = excess_micro, excess_micro
    return entry_of(EntryKind.EXPIRY, team, pool, by, (account.expired_micro, 1))


class EntryWriter:
    """Writes the entries of one boundary as they go to ``ledger``.

    The payload is that of :class:`LedgerEntryPosted`, made without building the model: a
    settlement writes entries by the hundred thousand. Names need no escaping by their pattern.
    """

    def __init__(self, boundary_ms: int, partition: int) -> None:
        self._boundary_ms = boundary_ms
        self._partition = partition
        self._heads = {kind: bordered("ledger") + bordered(kind) for kind in EntryKind}
        self._tail = bordered(str(boundary_ms))
        self._pools: dict[str, bytes] = {}

    def output(self, entry: Entry, team: str) -> Output:
        """Return an entry of a team as a record; its id is ``ledger/kind/team/pool/boundary``."""
        kind, pool, (numerator, denominator), lines = entry
        of_pool = self._pools.get(pool)
        if of_pool is None:
            of_pool = self._pools[pool] = bordered(pool) + self._tail
        name = digest_of_bordered(self._heads[kind] + bordered(team) + of_pool)
        common = gcd(numerator, denominator)
        moved = ",".join([f'{{"account":"{where}","amount_micro":{by}}}' for where, by in lines])
        payload = (
            f'{{"entry_id":"{name}","kind":"{kind}","team":"{team}","pool":"{pool}",'
            f'"boundary_ms":{self._boundary_ms},'
            f'"exact_total":"{numerator // common}/{denominator // common}",'
            f'"lines":[{moved}]}}'
        )
        return Output(
            *(LedgerEntryPosted.TOPIC, name, team, LedgerEntryPosted.TYPE, payload.encode()),
            self._partition,
        )
