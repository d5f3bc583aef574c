"""The ledger: double entry in µcr, one record per entry with all its lines, never changed."""

from enum import StrEnum
from fractions import Fraction
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, StringConstraints, model_validator

from walras_contracts.charges import ChargeId
from walras_contracts.event import Event, Part
from walras_contracts.identifiers import Id
from walras_contracts.quantities import MarketTimeMs, Micro
from walras_contracts.sequences import Distinct

ACCOUNT_PATTERN = (
    r"^(wallet|mint|revenue|credits|expired|rounding)/[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
)
EXACT_PATTERN = r"^-?(0|[1-9][0-9]{0,79})/[1-9][0-9]{0,59}$"

AccountName = Annotated[str, StringConstraints(strict=True, pattern=ACCOUNT_PATTERN)]
"""``wallet/TEAM``, or ``mint``, ``revenue``, ``credits``, ``expired``, ``rounding`` of a pool."""
Exact = Annotated[str, StringConstraints(strict=True, pattern=EXACT_PATTERN)]
"""An exact amount in µcr as ``numerator/denominator`` in lowest terms."""
EXACT_DENOMINATOR_MAX: Final = 10**36
"""A running total of a larger denominator is kept in whole 10⁻¹⁸ µcr."""
_FINEST: Final = 10**18


def bounded(exact: Fraction) -> Fraction:
    """Return a running total of incomes as it is kept and posted.

    The denominators of a team's incomes are the sums C of its pool; their common multiple grows
    with every other C, without end. Beyond :data:`EXACT_DENOMINATOR_MAX` the total is rounded
    (half to even) to 10⁻¹⁸ µcr, which no amount of money shows.
    """
    if exact.denominator <= EXACT_DENOMINATOR_MAX:
        return exact
    return Fraction(round(exact * _FINEST), _FINEST)


class EntryKind(StrEnum):
    """What an entry is about; each moves µcr from one kind of account to another."""

    INCOME = "income"
    """From the pool's mint to the wallet."""
    USAGE = "usage"
    """From the wallet to the pool's revenue; back where corrections lower what was charged."""
    CREDIT = "credit"
    """From the pool's credits to the wallet: goodwill for a failed drain or a heartbeat gap."""
    EXPIRY = "expiry"
    """From the wallet to the pool's expired balance: what exceeds the cap."""


class LedgerLine(Part):
    """By how much an entry changes an account."""

    account: AccountName
    amount_micro: Micro


class LedgerEntryPosted(Event):
    """One entry of one team and pool at one settlement boundary; its lines sum to zero.

    ``exact_total`` is the exact running total of its kind for this team and pool, this entry
    included; the wallet's line is its rounding (half to even) less what was posted before, so
    that rounding never depends on how amounts were grouped. The mint, or the pool's revenue,
    moves by whole µcr towards zero of the exact total, and ``rounding`` takes the difference.
    """

    TYPE: ClassVar[str] = "walras.ledger.posted.v1"
    TOPIC: ClassVar[str] = "ledger"

    entry_id: ChargeId
    """A function of kind, team, pool and boundary."""
    kind: Annotated[EntryKind, Field(strict=False)]
    team: Id
    pool: Id
    boundary_ms: MarketTimeMs
    exact_total: Exact
    lines: Annotated[
        tuple[LedgerLine, ...],
        Field(strict=False, min_length=2),
        Distinct("account", ordered=True),
    ]

    @model_validator(mode="after")
    def _balances(self) -> Self:
        total = sum(line.amount_micro for line in self.lines)
        if total:
            raise ValueError(f"the lines sum to {total}, not to 0")
        return self

    def record_key(self) -> str:
        """Key: the id of the entry."""
        return self.entry_id

    def partition_key(self) -> str:
        """By team."""
        return self.team
