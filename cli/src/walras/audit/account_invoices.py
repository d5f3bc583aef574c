"""The invoices of one team in one pool against its charge lines, in the order of the log."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from walras.audit.expected_invoices import (
    Content,
    Exact,
    LineKey,
    Lines,
    TeamInvoices,
    add_line,
    exact_sum,
    invoice_id,
)
from walras.audit.invoice_contents import compare_content, compare_head, roundings
from walras.audit.invoice_periods import InvoicePeriods
from walras.audit.invoice_revisions import DRAFT, VOIDED, InvoiceBook, Revision
from walras.audit.log_view import INVOICES
from walras.audit.report import AuditReport
from walras.audit.rows import Line
from walras.audit.steps import Clock

HOUR_MS = 3_600_000


@dataclass(slots=True)
class PoolSum:
    """What a pool's invoice must sum up at its last revision."""

    lines: Lines = field(default_factory=dict)
    halves: Counter[LineKey] = field(default_factory=Counter)
    """By how many half µcr the whole amounts of each may be off: that of its teams' together."""
    payable_micro: int = 0
    rejected_late_macc_ms: int = 0
    states: set[str] = field(default_factory=set)
    newest: int = -1
    """The latest revision of one of its teams' invoices."""


@dataclass(slots=True)
class InvoiceGround:
    """What the invoices of every team are audited against."""

    book: InvoiceBook
    periods: InvoicePeriods
    clock: Clock
    report: AuditReport
    pools: dict[str, PoolSum] = field(default_factory=lambda: defaultdict(PoolSum))
    """By the id of the pool's invoice."""

    def last_hourly_step(self) -> int:
        """Return the last step that was the first of an hour: drafts that changed are told then."""
        times_ms = self.clock.times_ms
        hour = times_ms[self.book.last] // HOUR_MS
        return next(
            (
                step
                for step in range(self.book.last, 0, -1)
                if times_ms[step - 1] // HOUR_MS < hour <= times_ms[step] // HOUR_MS
            ),
            0,
        )


class AccountInvoices:
    """Audits the invoices of one team in one pool."""

    def __init__(self, ground: InvoiceGround, account: tuple[str, str]) -> None:
        self._ground = ground
        self._account = account
        self._team = TeamInvoices(account, ground.periods, ground.clock)
        self._revisions = ground.book.of_account.get(account, [])
        self._issued = Exact()
        """Exact sum of what is issued and not voided."""
        self._payable_micro = 0
        """What was payable of that."""

    def run(self, lines: Sequence[Line], rejected: Iterable[tuple[int, int]]) -> None:
        """Follow the charges of the account, and compare.

        Parameters
        ----------
        lines
            Its charge lines and credits, in the order of the log.
        rejected
            Use that came too late, in macc·ms, by step.
        """
        ground, book = self._ground, self._ground.book
        charges: dict[int, list[Line]] = defaultdict(list)
        late: dict[int, list[int]] = defaultdict(list)
        for line in lines:
            charges[line.step].append(line)
        for step, macc_ms in rejected:
            late[step].append(macc_ms)
        issued: dict[int, list[Revision]] = defaultdict(list)
        voided: dict[int, list[Revision]] = defaultdict(list)
        for revision in self._revisions:
            issued[revision.issued].append(revision)
            voided[revision.voided].append(revision)
        told = max((revision.step for revision in self._revisions), default=-1)
        sums: dict[int, list[Revision]] = defaultdict(list)
        for revision in book.of_pool.get(self._account[1], ()):
            sums[revision.step].append(revision)
        steps = {*charges, *late, *issued, *voided, *sums, told}
        for step in sorted(step for step in steps if 0 <= step <= book.last):
            self._team.step(
                step,
                charges.get(step, ()),
                late.get(step, ()),
                [revision.invoice_id for revision in voided.get(step, ())],
            )
            self._move(step, issued.get(step, []), voided.get(step, []))
            for revision in sums.get(step, ()):
                self._add_to_pool(revision, step)
            if step == told:
                self._compare(step)
        self._report_missing(told, [step for step in (*charges, *late) if step <= book.last])
        ground.report.counts["invoices"] += len(self._revisions)

    def _move(self, step: int, issued: list[Revision], voided: list[Revision]) -> None:
        """Follow what was issued and voided in a step, and whether what is payable fits."""
        before_micro = self._payable_micro
        for revision in voided:
            self._issued = self._issued.plus(self._content_of(revision), -1)
            self._payable_micro -= revision.payable_micro
        fits = False
        for revision in issued:
            content = self._team.invoices.get(revision.invoice_id)
            self._issued = self._issued.plus(self._content_of(revision))
            self._payable_micro += revision.payable_micro
            fits = fits or (content is not None and content.is_due_anything)
            if content is not None and self._ground.clock.times_ms[step] < content.period.due_ms:
                self._differs(revision, "a draft until it is due", f"issued in step {step}")
        if issued:
            must_micro = self._issued.micro if fits else before_micro
            # Where one is voided in the same step, it is not known which came first.
            if abs(self._payable_micro - must_micro) > (1 if voided else 0):
                expected = must_micro - self._payable_micro + issued[-1].payable_micro
                self._differs(
                    *(issued[-1], f"payable_micro {expected}"),
                    f"payable_micro {issued[-1].payable_micro}",
                )

    def _content_of(self, revision: Revision) -> Exact:
        content = self._team.invoices.get(revision.invoice_id)
        return Exact() if content is None else content.exact

    def _drafts(self, step: int) -> list[tuple[Content, int]]:
        """Return the drafts after a step, in the order of their periods, with what is payable."""
        total, paid_micro = self._issued, self._payable_micro
        found = []
        drafts = [
            content
            for content in self._team.invoices.values()
            if self._ground.book.state_of(content, step) == DRAFT
        ]
        for content in sorted(drafts, key=_by_start):
            total = total.plus(content.exact)
            payable_micro = total.micro - paid_micro if content.is_due_anything else 0
            paid_micro += payable_micro
            found.append((content, payable_micro))
        return found

    def _compare(self, step: int) -> None:
        """Compare all invoices with their contents at the step that told of them last."""
        report, money = self._ground.report, self._ground.report.account(*self._account)
        payable = {content.invoice_id: micro for content, micro in self._drafts(step)}
        billed = Exact()
        for revision in self._revisions:
            content = self._team.invoices.get(revision.invoice_id)
            if content is None:
                report.add("invoice_unexpected", revision.where, revision.subject)
                continue
            compare_head(revision, content, self._account, report)
            halves = roundings(content.lines, revision.payable_micro)
            compare_content(revision, content, halves, report)
            must_micro = payable.get(revision.invoice_id)
            if must_micro is not None and must_micro != revision.payable_micro:
                self._differs(
                    revision,
                    *(f"payable_micro {must_micro}", f"payable_micro {revision.payable_micro}"),
                )
            if revision.state_at(step) != VOIDED:
                billed = billed.plus(exact_sum((key, sums) for key, sums, _ in revision.lines()))
                money.payable_micro += revision.payable_micro
        money.invoiced += billed.used + billed.credited
        if billed.micro != money.payable_micro:
            team, pool = self._account
            report.add(
                *("invoice_sum", INVOICES, f"{team} in {pool}"),
                *(f"{billed.micro} payable", money.payable_micro),
            )

    def _add_to_pool(self, revision: Revision, step: int) -> None:
        """Add what this team has on a pool's invoice at a step."""
        start_ms, period = revision.body["start_ms"], None
        for content in self._team.invoices.values():
            if content.period.start_ms == start_ms:
                period = content.period
                break
        if period is None or invoice_id("pool", self._account[1], "", period) != (
            revision.invoice_id
        ):
            return
        content = self._team.invoices[
            invoice_id("team", self._account[1], self._account[0], period)
        ]
        state = self._ground.book.state_of(content, step)
        of_pool = self._ground.pools[revision.invoice_id]
        of_pool.states.add(state)
        if state == VOIDED and revision.body["state"] != VOIDED:
            return
        of_pool.rejected_late_macc_ms += content.rejected_late_macc_ms
        held = self._ground.book.revisions.get(content.invoice_id)
        if state == DRAFT or held is None:
            payable = {draft.invoice_id: micro for draft, micro in self._drafts(step)}
            payable_micro = payable[content.invoice_id]
        else:
            payable_micro = held.payable_micro
        of_pool.payable_micro += payable_micro
        halves = roundings(content.lines, payable_micro)
        for key, line in content.lines.items():
            of_pool.halves[key._replace(job=None)] += halves[key]
            add_line(of_pool.lines, key._replace(job=None), line)

    def _report_missing(self, told: int, steps: list[int]) -> None:
        ground = self._ground
        where = INVOICES
        for name, content in sorted(self._team.invoices.items()):
            held = ground.book.revisions.get(name)
            team, pool = self._account
            subject = f"{name} of {team} in {pool} from {content.period.start_ms}"
            if held is None:
                ground.report.add("invoice_missing", where, subject, "an invoice", "none")
                continue
            self._expect_issued(held, content)
            of_pool = ground.pools[invoice_id("pool", pool, "", content.period)]
            of_pool.newest = max(of_pool.newest, held.step)
        hourly = ground.last_hourly_step()
        newer = [step for step in steps if told < step <= hourly]
        if newer and self._revisions:
            team, pool = self._account
            expected = f"a revision with what came in step {max(newer)}"
            ground.report.add(
                "invoice_missing", where, f"{team} in {pool}", expected, f"the last is of {told}"
            )

    def _expect_issued(self, revision: Revision, content: Content) -> None:
        """Report a draft that is due and not kept back by anything."""
        ground = self._ground
        now_ms = ground.clock.times_ms[ground.book.last]
        of_pool = ground.book.pool_revision(self._account[1], content.period)
        is_kept = revision.body["held"] or content.period.approval
        is_kept = is_kept or (of_pool is not None and of_pool.body["held"])
        if revision.body["state"] == DRAFT and content.period.due_ms <= now_ms and not is_kept:
            self._differs(revision, f"issued at {content.period.due_ms}", "a draft")

    def _differs(self, revision: Revision, expected: str, found: str) -> None:
        self._ground.report.add(
            "invoice_differs", revision.where, revision.subject, expected, found
        )


def _by_start(content: Content) -> tuple[int, str]:
    return content.period.start_ms, content.invoice_id
