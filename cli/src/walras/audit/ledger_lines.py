"""The ledger and the balances as the log has them, against those that must be."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

from walras.audit.expected_ledger import (
    CREDIT,
    EXPIRY,
    INCOME,
    USAGE,
    ExpectedLedger,
    LedgerRow,
)
from walras.audit.home_pools import HomePools
from walras.audit.incomes import Accounts
from walras.audit.log_view import Entry
from walras.audit.price_book import NO_STEP
from walras.audit.report import AuditReport
from walras.audit.rows import SETTLEMENT_MS, UnreadableError, contract_document, document_of
from walras.audit.steps import Clock
from walras_contracts.money import BalancePublished

TOPIC: Final = "ledger"
BALANCES: Final = "balances"
COMPARED: Final = ("kind", "team", "pool", "boundary_ms", "exact_total", "lines")
BALANCE_OF: Final = {
    INCOME: "earned_micro",
    USAGE: "spent_micro",
    CREDIT: "credited_micro",
    EXPIRY: "expired_micro",
}


def read_ledger(
    given: Iterable[tuple[int, Entry]], partition: int, report: AuditReport
) -> list[LedgerRow]:
    """Read a partition of ``ledger``; an entry that does not balance is reported, and kept."""
    found: list[LedgerRow] = []
    ids: set[str] = set()
    for step, entry in given:
        where = f"{TOPIC}/{partition}@{entry.offset}"
        try:
            row = _row(entry, step)
        except (UnreadableError, KeyError, TypeError, ValueError) as error:
            report.add("unreadable", where, entry.key, "an entry", repr(error))
            continue
        report.counts["entries"] += 1
        total = sum(amount for _, amount in row.lines)
        if total:
            report.add("ledger_unbalanced", where, subject_of(row), 0, total)
        if row.entry_id in ids:
            report.add("ledger_twice", where, subject_of(row))
        ids.add(row.entry_id)
        found.append(row)
    return found


def _row(entry: Entry, step: int) -> LedgerRow:
    body = document_of(entry)
    lines = tuple((str(line["account"]), _whole(line["amount_micro"])) for line in body["lines"])
    return LedgerRow(
        entry_id=str(body["entry_id"]),
        kind=str(body["kind"]),
        team=str(body["team"]),
        pool=str(body["pool"]),
        boundary_ms=_whole(body["boundary_ms"]),
        exact_total=str(body["exact_total"]),
        lines=lines,
        step=step,
        offset=entry.offset,
    )


def _whole(value: object) -> int:
    if type(value) is not int:
        raise UnreadableError(f"{value!r} is not a whole number")
    return value


def compare_ledger(
    expected: list[LedgerRow], found: list[LedgerRow], partition: int, report: AuditReport
) -> None:
    """Compare the entries of a partition with those that must be."""
    by_id: dict[str, LedgerRow] = {}
    for row in found:
        by_id.setdefault(row.entry_id, row)
    for row in expected:
        actual = by_id.pop(row.entry_id, None)
        if actual is None:
            report.add("ledger_missing", f"{TOPIC}/{partition}", subject_of(row), row.lines)
            continue
        where = f"{TOPIC}/{partition}@{actual.offset}"
        wrong = [name for name in COMPARED if getattr(row, name) != getattr(actual, name)]
        if wrong:
            report.add(
                "ledger_differs",
                where,
                subject_of(row),
                ", ".join(f"{name} {getattr(row, name)}" for name in wrong),
                ", ".join(f"{name} {getattr(actual, name)}" for name in wrong),
            )
        elif actual.step != row.step:
            report.add(
                "ledger_moved", where, subject_of(row), f"step {row.step}", f"step {actual.step}"
            )
    for row in by_id.values():
        where = f"{TOPIC}/{partition}@{row.offset}"
        report.add("ledger_unexpected", where, subject_of(row), "", row.lines)


def subject_of(row: LedgerRow) -> str:
    """Return which entry one is."""
    return f"{row.kind} of {row.team} in {row.pool} at {row.boundary_ms}"


def compare_balances(
    given: Iterable[tuple[int, Entry]],
    ledger: list[LedgerRow],
    must: tuple[ExpectedLedger, HomePools],
    partition: int,
    report: AuditReport,
) -> None:
    """Compare the balances of a partition with the fold of the entries on the log.

    Those that compaction removed are not there to be compared; the last of each team must be.

    Parameters
    ----------
    given
        Its balances, with their steps.
    ledger
        Its entries on the log.
    must
        Which boundaries were settled when, and the pools that wallets name.
    partition
        Where it is.
    report
        Told of what differs.
    """
    expected, homes = must
    settled = dict(expected.boundaries)
    told: dict[int, list[tuple[int, str, dict[str, Any]]]] = defaultdict(list)
    for _, entry in given:
        if entry.value is None:
            continue
        where = f"{BALANCES}/{partition}@{entry.offset}"
        try:
            body = contract_document(entry, BalancePublished)
            said = {name: body[name] for name in (*BALANCE_OF.values(), "wallet_micro", "pool")}
            said["key"] = entry.key
            told[body["boundary_ms"]].append((entry.offset, body["team"], said))
        except UnreadableError as error:
            report.add("unreadable", where, entry.key, "a balance", repr(error))
    posted: dict[int, list[LedgerRow]] = defaultdict(list)
    for row in ledger:
        posted[row.boundary_ms].append(row)
    fold: dict[str, Counter[str]] = defaultdict(Counter)
    last: dict[str, int] = {}
    for boundary_ms in sorted(told.keys() | posted.keys()):
        for row in posted.get(boundary_ms, ()):
            _fold(fold[row.team], row)
        for offset, team, said in told.get(boundary_ms, ()):
            report.counts["balances"] += 1
            last[team] = boundary_ms
            where = f"{BALANCES}/{partition}@{offset}"
            names = {"pool": homes.pool(team, settled.get(boundary_ms, NO_STEP)), "key": team}
            for name, found in said.items():
                one = names[name] if name in names else fold[team][name]
                if one != found:
                    subject = f"{name} of {team} at {boundary_ms}"
                    report.add("balance_differs", where, subject, one, found)
    for team in sorted(fold):
        if expected.boundaries and last.get(team) != expected.boundaries[-1][0]:
            boundary_ms = expected.boundaries[-1][0]
            where = f"{BALANCES}/{partition}"
            report.add("balance_missing", where, team, boundary_ms, last.get(team, "none"))


def _fold(balance: Counter[str], row: LedgerRow) -> None:
    amount = row.wallet_micro
    balance["wallet_micro"] += amount
    if row.kind in BALANCE_OF:
        sign = -1 if row.kind in (USAGE, EXPIRY) else 1
        balance[BALANCE_OF[row.kind]] += sign * amount


def compare_minted(
    accounts: Accounts,
    clock: Clock,
    ledgers: list[ExpectedLedger],
    posted: Counter[str],
    report: AuditReport,
) -> None:
    """See to it that each pool minted its weight times time, whatever its teams' incomes are.

    Parameters
    ----------
    accounts
        All documents.
    clock
        When the steps were.
    ledgers
        What every partition must have.
    posted
        By pool, what the wallets got as income by the entries on the log.
    report
        Told of pools that differ.
    """
    boundaries = ledgers[0].boundaries if ledgers else []
    if not boundaries:
        return
    start_ms, end_ms = boundaries[0][0] - SETTLEMENT_MS, boundaries[-1][0]
    earned: dict[str, Fraction] = defaultdict(Fraction)
    teams: Counter[str] = Counter()
    for ledger in ledgers:
        for (_, pool, kind), total in ledger.totals.items():
            if kind == INCOME:
                earned[pool] += total.exact
                teams[pool] += 1
    weights: dict[str, Fraction] = defaultdict(Fraction)
    for document, hours in accounts.pool_spans(start_ms, end_ms, clock.last):
        if any(team["income_local_per_hour"] for team in document["teams"]):
            weights[document["pool"]] += document["weight_micro_per_hour"] * hours
    may_be_bounded = any(ledger.is_bounded for ledger in ledgers)
    for pool in sorted(weights.keys() | earned.keys()):
        slack = Fraction(teams[pool] * len(boundaries), 10**18) if may_be_bounded else 0
        if abs(earned[pool] - weights[pool]) > slack:
            report.add("minted", "accounts", pool, weights[pool], earned[pool])
        # Each team's running total is rounded: by half a µcr at the most.
        elif abs(posted[pool] - weights[pool]) > Fraction(teams[pool], 2):
            report.add("minted", TOPIC, pool, f"about {round(weights[pool])}", posted[pool])
