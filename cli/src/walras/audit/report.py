"""What an audit found: differences by kind, counts of what it compared, what is in flight."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from walras.audit.rows import RATE_DENOMINATOR

DIFFERENCES_KEPT: Final = 1000
"""Of each kind; the others are counted."""
CODES: Final = {
    "charge_missing": "a charge line that usage and prices ask for is not there",
    "charge_unexpected": "a charge line that nothing asks for",
    "charge_differs": "a charge line says something else than usage and prices",
    "charge_moved": "a charge line was written in another step than in the first that could",
    "charge_twice": "an id of a charge line occurs again",
    "charge_partition": "a line lies in a partition that is not its team's",
    "credit_missing": "a credit that a failed drain or a gap asks for is not there",
    "credit_unexpected": "a credit that nothing asks for",
    "credit_differs": "a credit is not what its charge comes to",
    "credit_too_large": "more was given back than was charged",
    "second_twice": "an instant of a usage record is charged twice",
    "second_lost": "an instant of a usage record is in no charge, no quarantine, and does not wait",
    "record_sum": "the lines of a usage record do not add up to what it costs",
    "pending_differs": "what waits for a price is not what has none",
    "quarantine_missing": "usage that must not be charged is not in quarantine",
    "quarantine_unexpected": "usage in quarantine that must be charged",
    "quarantine_differs": "usage is in quarantine for another reason or amount",
    "gap_differs": "missing numbers of a source are not what was reported",
    "ledger_missing": "an entry of the ledger that a boundary asks for is not there",
    "ledger_unexpected": "an entry of the ledger that nothing asks for",
    "ledger_differs": "an entry of the ledger says something else than the recomputed totals",
    "ledger_moved": "an entry was posted in another step than the one that settles its boundary",
    "ledger_twice": "an id of an entry occurs again",
    "ledger_unbalanced": "the lines of an entry do not sum to zero",
    "minted": "a pool minted something else than its weight times time",
    "balance_missing": "a team has no balance of the last settled boundary",
    "balance_differs": "a balance is not the fold of the ledger",
    "budget_missing": "the last record of a team's budgets is not there",
    "budget_unexpected": "a record of budgets that nothing asks for",
    "budget_differs": "a record of budgets says something else than charges, ledger and documents",
    "alert_missing": "an alert of a threshold that was passed is not there",
    "alert_unexpected": "an alert that nothing asks for",
    "alert_differs": "an alert says something else than charges and documents",
    "invoice_missing": "an invoice that charges ask for is not there",
    "invoice_unexpected": "an invoice that nothing asks for",
    "invoice_differs": "an invoice says something else than its charges",
    "invoice_sum": "payables do not add up to what was charged",
    "unreadable": "a record is not of the form of its contract",
}
"""Every kind of difference, and what it means."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it must be.

    ``where`` is topic/partition@offset, without an offset where a record is missing. ``expected``
    and ``found`` hold what differs.
    """

    code: str
    where: str
    subject: str
    expected: str = ""
    found: str = ""

    def document(self) -> dict[str, str]:
        """Return it as a JSON object."""
        return {
            "code": self.code,
            "where": self.where,
            "subject": self.subject,
            "expected": self.expected,
            "found": self.found,
        }


@dataclass(slots=True)
class TeamMoney:
    """What a team of a pool was charged, exactly in numerators, and where that stands."""

    rated: int = 0
    credited: int = 0
    posted: int = 0
    """In the ledger: rated less credited."""
    invoiced: int = 0
    """On invoices that are not voided."""
    payable_micro: int = 0

    @property
    def owed(self) -> int:
        """Rated less credited."""
        return self.rated + self.credited


@dataclass(slots=True)
class AuditReport:
    """The outcome of an audit.

    ``counts``: how many records of each kind were compared. ``macc_ms``: what became of all use, in
    milli-accelerator-milliseconds. ``quarantined_macc_ms``: by code.
    """

    barrier: int = -1
    market_time_ms: int = 0
    boundary_ms: int | None = None
    """The last settled boundary."""
    invoice_barrier: int | None = None
    """Up to which barrier invoices are audited; None: the log has none."""
    counts: Counter[str] = field(default_factory=Counter)
    macc_ms: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    quarantined_macc_ms: Counter[str] = field(default_factory=Counter)
    money: dict[tuple[str, str], TeamMoney] = field(default_factory=dict)
    """By team and pool."""
    found: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing differs."""
        return not self.found

    def add(
        self, code: str, where: str, subject: str, expected: object = "", found: object = ""
    ) -> None:
        """Take a difference; of each kind the first `DIFFERENCES_KEPT` are kept."""
        assert code in CODES, code
        self.found[code] += 1
        if self.found[code] <= DIFFERENCES_KEPT:
            self.differences.append(Difference(code, where, subject, str(expected), str(found)))

    def account(self, team: str, pool: str) -> TeamMoney:
        """Return the money of a team of a pool."""
        return self.money.setdefault((team, pool), TeamMoney())

    def in_flight(self) -> dict[str, int]:
        """Return what was charged and is not in the ledger, or on no invoice yet, as numerators."""
        owed = sum(money.owed for money in self.money.values())
        return {
            "ledger": owed - sum(money.posted for money in self.money.values()),
            "invoices": owed - sum(money.invoiced for money in self.money.values()),
        }

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "clean": self.is_clean,
            "barrier": self.barrier,
            "market_time_ms": self.market_time_ms,
            "boundary_ms": self.boundary_ms,
            "invoice_barrier": self.invoice_barrier,
            "counts": dict(sorted(self.counts.items())),
            "macc_ms": {name: str(total) for name, total in sorted(self.macc_ms.items())},
            "quarantined": {
                code: {"records": count, "macc_ms": str(self.quarantined_macc_ms[code])}
                for code, count in sorted(self.quarantined.items())
            },
            "money": [
                {
                    "team": team,
                    "pool": pool,
                    "charged_micro": rounded_micro(money.rated),
                    "credited_micro": rounded_micro(money.credited),
                    "in_ledger_micro": rounded_micro(money.posted),
                    "on_invoices_micro": money.payable_micro,
                }
                for (team, pool), money in sorted(self.money.items())
            ],
            "in_flight_micro": {
                name: rounded_micro(total) for name, total in self.in_flight().items()
            },
            "found": dict(sorted(self.found.items())),
            "differences": [difference.document() for difference in self.differences],
        }


def rounded_micro(numerator: int) -> int:
    """Return an amount in µcr, rounded half to even."""
    whole, rest = divmod(numerator, RATE_DENOMINATOR)
    doubled = 2 * rest
    up = doubled > RATE_DENOMINATOR or (doubled == RATE_DENOMINATOR and whole % 2 == 1)
    return whole + up
