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

_TOPIC: Final = LedgerEntryPosted.TOPIC
_TYPE: Final = LedgerEntryPosted.TYPE


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


class _Words(NamedTuple):
    """What all entries of a kind in a pool have in common at a boundary, as text."""

    wallet_sign: int
    name_head: bytes
    """Of what an entry's id is made, up to the team."""
    name_tail: bytes
    kind: str
    """Of the payload, from the id to the team."""
    pool: str
    """From there to the exact total."""
    counter: str
    """Line of the other account, up to its amount."""
    rounding: str


class EntryWriter:
    """Writes the entries of one boundary as they go to ``ledger``.

    The payload is that of :class:`LedgerEntryPosted`, made without building the model: a
    settlement writes entries by the hundred thousand. Names need no escaping by their pattern.
    """

    def __init__(self, boundary_ms: int, partition: int) -> None:
        self._boundary_ms = boundary_ms
        self._partition = partition
        self._words: dict[tuple[EntryKind, str], _Words] = {}

    def entry(
        self, kind: EntryKind, team: str, pool: str, by: tuple[int, int], exact: Amount
    ) -> Output | None:
        """Return the entry of a running total that changed; None: no account does by a whole µcr.

        Its id is made of ``ledger``, kind, team, pool and boundary.

        Parameters
        ----------
        kind, team, pool
            What the total counts, and whose it is.
        by
            How much it changed, rounded and truncated (:class:`RunningTotal`).
        exact
            The total as it is now, in lowest terms.
        """
        try:
            words = self._words[kind, pool]
        except KeyError:
            words = self._words[kind, pool] = self._words_of(kind, pool)
        sign, name_head, name_tail, of_kind, of_pool, of_counter, of_rounding = words
        wallet, counter = sign * by[0], -sign * by[1]
        left = -wallet - counter
        # By account name, as the contract wants: each of the other sides comes before "rounding".
        lines = f"{of_counter}{counter}}}," if counter else ""
        if left:
            lines += f"{of_rounding}{left}}},"
        if wallet:
            lines += f'{{"account":"wallet/{team}","amount_micro":{wallet}}},'
        if not lines:
            return None
        name = digest_of_bordered(name_head + bordered(team) + name_tail)
        payload = (
            f'{{"entry_id":"{name}{of_kind}{team}{of_pool}{exact[0]}/{exact[1]}",'
            f'"lines":[{lines[:-1]}]}}'
        )
        return Output(_TOPIC, name, team, _TYPE, payload.encode(), self._partition)

    def _words_of(self, kind: EntryKind, pool: str) -> _Words:
        counter, sign = SIDES[kind]
        return _Words(
            sign,
            bordered("ledger") + bordered(kind),
            bordered(pool) + bordered(str(self._boundary_ms)),
            f'","kind":"{kind}","team":"',
            f'","pool":"{pool}","boundary_ms":{self._boundary_ms},"exact_total":"',
            f'{{"account":"{counter}/{pool}","amount_micro":',
            f'{{"account":"rounding/{pool}","amount_micro":',
        )


def post_totals(
    account: PoolAccount, team: str, pool: str, income: Amount | None, writer: EntryWriter
) -> list[Output]:
    """Post the income of an interval, and what was charged and credited since the last entries.

    Parameters
    ----------
    account
        Running totals of the team in the pool; afterwards all of it is posted.
    team, pool
        Whose they are.
    income
        What was earned in the interval; None: nothing.
    writer
        Writes the entries.
    """
    found: list[Output | None] = []
    if income is not None and income[0]:
        earned = account.earned
        by = earned.add(income)
        exact = earned.numerator, earned.denominator
        found.append(writer.entry(EntryKind.INCOME, team, pool, by, exact))
    spent = account.spent_numerator
    if spent != account.spent_posted.numerator:
        by = account.spent_posted.move_to(spent, RATE_DENOMINATOR)
        found.append(writer.entry(EntryKind.USAGE, team, pool, by, _in_lowest_terms(spent)))
    credited = account.credited_numerator
    if credited != account.credited_posted.numerator:
        by = account.credited_posted.move_to(credited, RATE_DENOMINATOR)
        found.append(writer.entry(EntryKind.CREDIT, team, pool, by, _in_lowest_terms(credited)))
    return [entry for entry in found if entry is not None]


def post_expiry(
    account: PoolAccount, team: str, pool: str, excess_micro: int, writer: EntryWriter
) -> Output | None:
    """Let a whole amount expire; None: there is nothing to expire."""
    if excess_micro <= 0:
        return None
    account.expired_micro += excess_micro
    by, exact = (excess_micro, excess_micro), (account.expired_micro, 1)
    return writer.entry(EntryKind.EXPIRY, team, pool, by, exact)


def _in_lowest_terms(numerator: int) -> Amount:
    common = gcd(numerator, RATE_DENOMINATOR)
    return numerator // common, RATE_DENOMINATOR // common
