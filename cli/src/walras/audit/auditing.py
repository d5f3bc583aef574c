"""The audit: a log in, a report out."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from walras.audit.account_invoices import AccountInvoices, InvoiceGround
from walras.audit.audit_rules import AuditRules
from walras.audit.budget_records import compare_alerts, compare_budgets
from walras.audit.expected_budgets import BudgetInputs, ExpectedBudgets
from walras.audit.expected_ledger import CREDIT, INCOME, USAGE, ExpectedLedger, LedgerRow
from walras.audit.home_pools import HomePools
from walras.audit.incomes import Accounts
from walras.audit.invoice_periods import InvoicePeriods
from walras.audit.invoice_revisions import InvoiceBook, read_invoices
from walras.audit.ledger_lines import (
    compare_balances,
    compare_ledger,
    compare_minted,
    read_ledger,
)
from walras.audit.log_view import (
    ALERTS,
    AUDITED_TOPICS,
    BUDGETS,
    INVOICES,
    NO_BARRIER,
    AuditError,
    AuditLog,
    Entry,
    MemoryAuditLog,
)
from walras.audit.memberships import Memberships
from walras.audit.partition_audit import Ground, Outcome, PartitionAudit
from walras.audit.pool_invoices import audit_pools
from walras.audit.price_book import PriceBook
from walras.audit.report import AuditReport
from walras.audit.rows import Line, UnreadableError, contract_document
from walras.audit.steps import Clock, last_common_barrier, read_clock, records
from walras_contracts.accounts import AccountsChanged
from walras_contracts.identifiers import partition_of
from walras_contracts.market import PriceGapPublished, PricePublished
from walras_runtime.memory.log import MemoryLog

Progress = Callable[[int, int], None]
"""Told of records read, and of how many there are about."""


def audit(
    log: AuditLog | MemoryLog,
    rules: AuditRules | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Recompute everything from usage, prices, accounts and drains, and compare.

    Holds prices, accounts and one partition of teams in memory at a time.

    Parameters
    ----------
    log
        What is audited: :class:`~walras.audit.log_view.AuditLog`, or a log in memory.
    rules
        The settings of billing, where they are not its defaults.
    progress
        Told how far the reading is.

    Raises
    ------
    AuditError
        The log is not whole: a topic or a barrier is missing.
    """
    view = MemoryAuditLog(log) if isinstance(log, MemoryLog) else log
    return _Audit(view, rules or AuditRules(), progress or _tell_nobody).run()


def _tell_nobody(_done: int, _total: int) -> None:
    """Take a progress that nobody wants to know."""


class _Audit:
    def __init__(self, log: AuditLog, rules: AuditRules, progress: Progress) -> None:
        self._log = log
        self._rules = rules
        self._progress = progress
        self._report = AuditReport()
        self._done = 0
        self._total = 0

    def run(self) -> AuditReport:
        log, report = self._log, self._report
        last = last_common_barrier(log)
        self._total = sum(
            log.size(topic, partition)
            for topic in AUDITED_TOPICS
            for partition in log.partitions(topic)
        )
        clock = read_clock(log, last)
        report.barrier, report.market_time_ms = last, clock.times_ms[last]
        accounts = self._accounts(last)
        ground = Ground(
            log,
            clock,
            self._rules,
            self._prices(last),
            accounts,
            Memberships(accounts, clock),
            report,
            self._tell,
        )
        partitions = log.partitions("usage")
        ledgers = []
        minted: Counter[str] = Counter()
        invoices = self._invoices(clock, ground.accounts)
        for partition in partitions:
            place = (partition, len(partitions))
            outcome = PartitionAudit(ground, *place).run()
            must = ExpectedLedger(ground.accounts, clock, self._rules, place)
            must.run(outcome.amounts)
            ledgers.append(must)
            found = read_ledger(self._read("ledger", partition, last), partition, report)
            homes = HomePools(ground.members, must, outcome.rated, must.is_mine)
            self._settle(must, homes, found, partition, last)
            self._budgets(ground, (must, homes), outcome, partition)
            if invoices is not None:
                _audit_accounts(invoices, outcome, partition, len(partitions))
            for row in found:
                if row.kind == INCOME:
                    minted[row.pool] += row.wallet_micro
        compare_minted(ground.accounts, clock, ledgers, minted, report)
        if invoices is not None:
            audit_pools(invoices)
        if ledgers and ledgers[0].boundaries:
            report.boundary_ms = ledgers[0].boundaries[-1][0]
        return report

    def _settle(
        self,
        must: ExpectedLedger,
        homes: HomePools,
        found: list[LedgerRow],
        partition: int,
        last: int,
    ) -> None:
        report = self._report
        for (team, pool, kind), total in must.totals.items():
            if kind in (USAGE, CREDIT):
                sign = 1 if kind == USAGE else -1
                report.account(team, pool).posted += sign * total.posted_numerator
        compare_ledger(must.entries, found, partition, report)
        balances = self._read("balances", partition, last)
        compare_balances(balances, found, (must, homes), partition, report)

    def _budgets(
        self,
        ground: Ground,
        wallets: tuple[ExpectedLedger, HomePools],
        outcome: Outcome,
        partition: int,
    ) -> None:
        """Compare budgets and alerts of a partition."""
        ledger, homes = wallets
        lines: dict[str, list[Line]] = defaultdict(list)
        for (team, _), held in outcome.lines.items():
            if team in ground.members.budgeted:
                lines[team] += held
        inputs = BudgetInputs(
            *(ground.members, homes, ledger, ground.book, ground.clock), lines, outcome.unrated
        )
        told, last = ExpectedBudgets(inputs).run(), ground.clock.last
        budgets, alerts = (self._read(topic, partition, last) for topic in (BUDGETS, ALERTS))
        compare_budgets(budgets, told.records, partition, self._report)
        compare_alerts(alerts, told.alerts, partition, self._report)

    def _read(self, topic: str, partition: int, last: int) -> Iterator[tuple[int, Entry]]:
        for step, entry in records(self._log, topic, partition, last):
            self._tell(1)
            yield step, entry

    def _prices(self, last: int) -> PriceBook:
        book = PriceBook()
        for partition in self._log.partitions("prices"):
            # In a step gaps come first: a price for their end takes its place.
            told = sorted(self._read("prices", partition, last), key=_by_step_gaps_first)
            for step, entry in told:
                try:
                    document = contract_document(entry, PricePublished, PriceGapPublished)
                    if entry.type == PricePublished.TYPE:
                        book.put(document, step)
                    else:
                        book.put_gap(document, step)
                except UnreadableError as error:
                    where = f"prices/{partition}@{entry.offset}"
                    raise AuditError(f"{where}: {error!r}") from error
        return book

    def _accounts(self, last: int) -> Accounts:
        accounts = Accounts()
        for partition in self._log.partitions("accounts"):
            for step, entry in self._read("accounts", partition, last):
                try:
                    accounts.put(contract_document(entry, AccountsChanged), step)
                except UnreadableError as error:
                    where = f"accounts/{partition}@{entry.offset}"
                    raise AuditError(f"{where}: {error!r}") from error
        return accounts

    def _invoices(self, clock: Clock, accounts: Accounts) -> InvoiceGround | None:
        """Read the invoices, up to where they go; None: there are none."""
        log, report = self._log, self._report
        partitions = log.partitions(INVOICES)
        ends = [log.last_barrier(INVOICES, partition) for partition in partitions]
        if not ends or min(ends) == NO_BARRIER:
            return None
        book = InvoiceBook(min(*ends, clock.last))
        for partition in partitions:
            read_invoices(self._read(INVOICES, partition, book.last), partition, book, report)
        report.invoice_barrier = book.last
        return InvoiceGround(book, InvoicePeriods(accounts), clock, report)

    def _tell(self, records_read: int) -> None:
        self._done += records_read
        self._progress(min(self._done, self._total), self._total)


def _audit_accounts(
    invoices: InvoiceGround, outcome: Outcome, partition: int, partitions: int
) -> None:
    """Audit the invoices of the teams of a partition."""
    mine = {
        account
        for account in invoices.book.of_account
        if partition_of(account[0], partitions) == partition
    }
    for account in sorted({*outcome.lines, *outcome.rejected, *mine}):
        lines = sorted(outcome.lines.get(account, ()), key=_by_place)
        AccountInvoices(invoices, account).run(lines, outcome.rejected.get(account, ()))


def _by_place(line: Line) -> tuple[int, int]:
    return line.step, line.offset


def _by_step_gaps_first(told: tuple[int, Entry]) -> tuple[int, bool]:
    return told[0], told[1].type != PriceGapPublished.TYPE
