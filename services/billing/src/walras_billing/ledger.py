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


class Words(NamedTuple):
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


Whose = tuple[str, bytes]
"""A team, as text and as :func:`bordered`."""


class PoolWords(NamedTuple):
    """The words of each kind in a pool, in the order of :data:`SIDES`."""

    income: Words
    usage: Words
    credit: Words
    expiry: Words


class EntryWriter:
    """Writes the entries of one boundary as they go to ``ledger``.

    The payload is that of :class:`LedgerEntryPosted`, made without building the model: a
    settlement writes entries by the hundred thousand. Names need no escaping by their pattern.

    Parameters
    ----------
    boundary_ms
        The boundary.
    partition
        Where the entries go.
    written
        They are appended to it.
    """

    def __init__(self, boundary_ms: int, partition: int, written: list[Output]) -> None:
        self.written = written
        self.partition = partition
        self._boundary_ms = boundary_ms
        self._words: dict[str, PoolWords] = {}

    def words_of(self, pool: str) -> PoolWords:
        """Return what the entries of a pool have in common."""
        words = self._words.get(pool)
        if words is None:
            words = self._words[pool] = PoolWords(*[self._made(kind, pool) for kind in SIDES])
        return words

    def entry(self, words: Words, whose: Whose, by: tuple[int, int], exact: Amount) -> None:
        """Write the entry of a running total that changed; none if no account does by a whole µcr.

        Its id is made of ``ledger``, kind, team, pool and boundary.

        Parameters
        ----------
        words
            Of its kind and pool.
        whose
            The team.
        by
            How much the total changed, rounded and truncated (:class:`RunningTotal`).
        exact
            The total as it is now, in lowest terms.
        """
        team, named = whose
        sign, name_head, name_tail, of_kind, of_pool, of_counter, of_rounding = words
        rounded, truncated = by
        wallet, counter = sign * rounded, -sign * truncated
        left = -wallet - counter
        # By account name, as the contract wants: each of the other sides comes before "rounding".
        rounding = f"{of_rounding}{left}}}," if left else ""
        if counter and wallet:
            lines = (
                f"{of_counter}{counter}}},{rounding}"
                f'{{"account":"wallet/{team}","amount_micro":{wallet}}}'
            )
        elif counter:
            lines = f"{of_counter}{counter}}},{rounding[:-1]}"
        elif wallet:
            lines = f'{rounding}{{"account":"wallet/{team}","amount_micro":{wallet}}}'
        else:
            return
        name = digest_of_bordered(name_head + named + name_tail)
        payload = (
            f'{{"entry_id":"{name}{of_kind}{team}{of_pool}{exact[0]}/{exact[1]}",'
            f'"lines":[{lines}]}}'
        )
        self.written.append(Output(_TOPIC, name, team, _TYPE, payload.encode(), self.partition))

    def _made(self, kind: EntryKind, pool: str) -> Words:
        counter, sign = SIDES[kind]
        return Words(
            sign,
            bordered("ledger") + bordered(kind),
            bordered(pool) + bordered(str(self._boundary_ms)),
            f'","kind":"{kind}","team":"',
            f'","pool":"{pool}","boundary_ms":{self._boundary_ms},"exact_total":"',
            f'{{"account":"{counter}/{pool}","amount_micro":',
            f'{{"account":"rounding/{pool}","amount_micro":',
        )


def post_totals(
    account: PoolAccount,
    whose: Whose,
    income: Amount | None,
    words: PoolWords,
    writer: EntryWriter,
) -> bool:
    """Post the income of an interval, and what was charged and credited since the last entries.

    Parameters
    ----------
    account
        Running totals of the team in a pool; afterwards all of it is posted.
    whose
        The team.
    income
        What was earned in the interval; None: nothing.
    words
        Of the pool.
    writer
        Writes the entries.

    Returns
    -------
    bool
        Whether a total moved, if only by a part of a µcr that no entry shows.
    """
    moved = False
    if income is not None and income[0]:
        earned, moved = account.earned, True
        by = earned.add(income)
        writer.entry(words.income, whose, by, (earned.numerator, earned.denominator))
    spent, posted = account.spent_numerator, account.spent_posted
    if spent != posted.numerator:
        moved = True
        by = posted.move_to(spent, RATE_DENOMINATOR)
        writer.entry(words.usage, whose, by, _in_lowest_terms(spent))
    credited, posted = account.credited_numerator, account.credited_posted
    if credited != posted.numerator:
        moved = True
        by = posted.move_to(credited, RATE_DENOMINATOR)
        writer.entry(words.credit, whose, by, _in_lowest_terms(credited))
    return moved


def post_expiry(
    account: PoolAccount,
    whose: Whose,
    excess_micro: int,
    words: PoolWords,
    writer: EntryWriter,
) -> None:
    """Let a whole amount above 0 expire."""
    account.expired_micro += excess_micro
    by, exact = (excess_micro, excess_micro), (account.expired_micro, 1)
    writer.entry(words.expiry, whose, by, exact)


def _in_lowest_terms(numerator: int) -> Amount:
    common = gcd(numerator, RATE_DENOMINATOR)
    return numerator // common, RATE_DENOMINATOR // common
