"""The ledger that accounts, charges and credits ask for, computed anew.

At each settled boundary, for each team and pool, income, usage, credits and expiry are posted as
the rounded exact running total less what was posted of it before.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from walras.audit.audit_rules import AuditRules
from walras.audit.incomes import Accounts, shares
from walras.audit.rows import (
    RATE_DENOMINATOR,
    SETTLEMENT_MS,
    exact_text,
    half_even,
    towards_zero,
)
from walras.audit.steps import Clock
from walras_contracts.identifiers import digest_of, partition_of
from walras_contracts.ledger import bounded

INCOME, USAGE, CREDIT, EXPIRY = "income", "usage", "credit", "expiry"
SIGN: Final = {INCOME: 1, USAGE: -1, CREDIT: 1, EXPIRY: -1}
"""Of the wallet's line; the counter account has the other one."""
COUNTER: Final = {INCOME: "mint", USAGE: "revenue", CREDIT: "credits", EXPIRY: "expired"}
Account = tuple[str, str]
"""Team and pool."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One entry, on the log or as it must be."""

    entry_id: str
    kind: str
    team: str
    pool: str
    boundary_ms: int
    exact_total: str
    lines: tuple[tuple[str, int], ...]
    step: int
    offset: int = -1

    @property
    def wallet_micro(self) -> int:
        """By how much it changes the wallet."""
        return sum(amount for account, amount in self.lines if account == f"wallet/{self.team}")


@dataclass(frozen=True, slots=True)
class BalanceRow:
    """A team's wallet at a boundary."""

    team: str
    boundary_ms: int
    earned_micro: int
    spent_micro: int
    credited_micro: int
    expired_micro: int

    @property
    def wallet_micro(self) -> int:
        """What it has."""
        return self.earned_micro - self.spent_micro + self.credited_micro - self.expired_micro


@dataclass(slots=True)
class _Total:
    """A running total of one kind: exact, and what was posted of it to either side."""

    exact: Fraction = field(default_factory=Fraction)
    posted: Fraction = field(default_factory=Fraction)
    wallet_micro: int = 0
    counter_micro: int = 0

    @property
    def posted_numerator(self) -> int:
        """What was posted of charges or credits, in their units."""
        return int(self.posted * RATE_DENOMINATOR)

    def post(self, kind: str, team: str, pool: str) -> tuple[tuple[str, int], ...]:
        """Return the lines that bring both sides up to date; those of 0 are left out."""
        self.posted = self.exact
        sign = SIGN[kind]
        wallet = sign * (half_even(self.exact) - self.wallet_micro)
        counter = -sign * (towards_zero(self.exact) - self.counter_micro)
        self.wallet_micro += sign * wallet
        self.counter_micro -= sign * counter
        lines = {
            f"wallet/{team}": wallet,
            f"{COUNTER[kind]}/{pool}": counter,
            f"rounding/{pool}": -wallet - counter,
        }
        return tuple(sorted((name, amount) for name, amount in lines.items() if amount))


class ExpectedLedger:
    """The ledger of one partition of teams.

    Parameters
    ----------
    accounts
        All documents of the log.
    clock
        When its steps were.
    rules
        What billing was set to.
    place
        The partition, and how many there are.
    """

    def __init__(
        self, accounts: Accounts, clock: Clock, rules: AuditRules, place: tuple[int, int]
    ) -> None:
        self._accounts = accounts
        self._clock = clock
        self._rules = rules
        self._place = place
        self._mine: dict[str, bool] = {}
        self.totals: dict[tuple[str, str, str], _Total] = defaultdict(_Total)
        """By team, pool and kind."""
        self.wallets: Counter[str] = Counter()
        self.entries: list[LedgerRow] = []
        self.boundaries: list[tuple[int, int]] = []
        """Each settled boundary with the step that settled it."""
        self.begin_ms = 0
        """The boundary behind which the first step was; nothing was earned before it."""
        self.earned_since: dict[Account, int] = {}
        """The step that settled the first income of an account, be it 0."""
        self.is_bounded = False
        """Whether a running total of incomes had to be rounded to 10⁻¹⁸ µcr."""

    def run(self, amounts: Mapping[int, Iterable[tuple[Account, str, int]]]) -> None:
        """Settle all that is due up to the last step.

        Parameters
        ----------
        amounts
            By step, what was charged or credited in it: team and pool, `USAGE` or `CREDIT`, and the
            numerator (a credit is positive).
        """
        settled_ms: int | None = None
        for step, time_ms in enumerate(self._clock.times_ms):
            for (team, pool), kind, numerator in amounts.get(step, ()):
                self.totals[team, pool, kind].exact += Fraction(numerator, RATE_DENOMINATOR)
            due_ms = (time_ms - self._rules.price_grace_ms) // SETTLEMENT_MS * SETTLEMENT_MS
            if settled_ms is None:
                settled_ms = self.begin_ms = due_ms
            kinds: tuple[str, ...] = (INCOME, USAGE, CREDIT)
            while settled_ms < due_ms:
                self._earn(settled_ms, settled_ms + SETTLEMENT_MS, step)
                settled_ms += SETTLEMENT_MS
                self._settle(settled_ms, step, kinds)
                # What was rated so far was posted at the first boundary of the step.
                kinds = (INCOME,)

    def _earn(self, start_ms: int, end_ms: int, step: int) -> None:
        earned: dict[Account, Fraction] = defaultdict(Fraction)
        for document, hours in self._accounts.pool_spans(start_ms, end_ms, step):
            for team, amount in shares(document, hours):
                if self.is_mine(team):
                    earned[team, document["pool"]] += amount
        for (team, pool), amount in earned.items():
            self.earned_since.setdefault((team, pool), step)
            total = self.totals[team, pool, INCOME]
            exact = total.exact + amount
            total.exact = bounded(exact)
            self.is_bounded = self.is_bounded or total.exact != exact

    def _settle(self, boundary_ms: int, step: int, kinds: tuple[str, ...]) -> None:
        self.boundaries.append((boundary_ms, step))
        room = self._room(boundary_ms, step)
        pools_of: dict[str, set[str]] = defaultdict(set)
        for team, pool, _ in self.totals:
            pools_of[team].add(pool)
        for team in sorted(pools_of):
            for pool in sorted(pools_of[team]):
                for kind in kinds:
                    self._post(kind, team, pool, boundary_ms, step)
            if team in room:
                pool, room_micro = room[team]
                excess = self.wallets[team] - room_micro
                if excess > 0:
                    self.totals[team, pool, EXPIRY].exact += excess
                    self._post(EXPIRY, team, pool, boundary_ms, step)

    def _room(self, boundary_ms: int, step: int) -> dict[str, tuple[str, int]]:
        """Return by team with an income its pool, and what its wallet has room for.

        Intake refuses a team in two pools; should it happen, the first pool counts.
        """
        hours = Fraction(self._accounts.balance_hours(boundary_ms, step))
        found: dict[str, tuple[str, Fraction]] = {}
        for document in self._accounts.pools_at(boundary_ms, step):
            for team, earned in shares(document, hours):
                if self.is_mine(team):
                    found.setdefault(team, (document["pool"], earned))
        return {team: (pool, int(most)) for team, (pool, most) in found.items() if most > 0}

    def _post(self, kind: str, team: str, pool: str, boundary_ms: int, step: int) -> None:
        total = self.totals[team, pool, kind]
        lines = total.post(kind, team, pool)
        if lines:
            row = LedgerRow(
                digest_of("ledger", kind, team, pool, str(boundary_ms)),
                *(kind, team, pool, boundary_ms, exact_text(total.exact), lines, step),
            )
            self.entries.append(row)
            self.wallets[team] += row.wallet_micro

    def is_mine(self, team: str) -> bool:
        """Whether a team is of this partition."""
        found = self._mine.get(team)
        if found is None:
            partition, partitions = self._place
            found = self._mine[team] = partition_of(team, partitions) == partition
        return found
