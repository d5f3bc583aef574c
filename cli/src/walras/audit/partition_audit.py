"""The audit of one partition of teams: usage against charges, credits, quarantine and pending."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from walras.audit.audit_rules import AuditRules
from walras.audit.budget_windows import Unrated
from walras.audit.charge_lines import (
    compare_coverage,
    compare_lines,
    compare_pending,
    read_lines,
    read_pending,
)
from walras.audit.expected_charges import Rated, Rating, cost_now
from walras.audit.expected_ledger import CREDIT, USAGE, Account
from walras.audit.failed_drains import read_drains
from walras.audit.incomes import Accounts
from walras.audit.log_view import AuditLog, Entry
from walras.audit.memberships import Memberships
from walras.audit.price_book import PriceBook
from walras.audit.quarantine import (
    NEVER_PRICED,
    OVERLAP,
    Quarantine,
    compare_gaps,
    compare_records,
    compare_spans,
    read_quarantine,
    report_spans_of_nothing,
)
from walras.audit.quarantine import TOPIC as QUARANTINED
from walras.audit.report import AuditReport
from walras.audit.rows import CREDITED, RATED, Line, Span, Use, joined, length_ms, without
from walras.audit.source_audit import RatedUse, SourceAudit, SourceOutcome
from walras.audit.steps import Clock, records
from walras.audit.usage_verdicts import Judge, Refused, Verdicts

AT_THE_END: Final = 2**62


@dataclass(frozen=True, slots=True)
class Ground:
    """What every partition is audited against."""

    log: AuditLog
    clock: Clock
    rules: AuditRules
    book: PriceBook
    accounts: Accounts
    members: Memberships
    report: AuditReport
    tell: Callable[[int], None]
    """Told of records that were read."""


@dataclass(slots=True)
class Outcome:
    """What a partition must have: amounts by step, lines by team and pool, use that came too late.

    A line that is on the log carries its offset there, one that is missing comes last. ``rated``:
    of each team the step that rated its first use, and the pool of that. ``unrated``: of teams with
    budgets, use while it has no price.
    """

    amounts: dict[int, list[tuple[Account, str, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    lines: dict[Account, list[Line]] = field(default_factory=lambda: defaultdict(list))
    rejected: dict[Account, list[tuple[int, int]]] = field(default_factory=dict)
    rated: dict[str, tuple[int, str]] = field(default_factory=dict)
    unrated: dict[str, list[Unrated]] = field(default_factory=lambda: defaultdict(list))


class PartitionAudit:
    """Audits one partition."""

    def __init__(self, ground: Ground, partition: int, partitions: int) -> None:
        self._ground = ground
        self._partition = partition
        self._place = (partition, partitions)
        self._rating = Rating(ground.book, ground.rules, ground.clock)
        self._waiting: dict[str, tuple[object, ...]] = {}
        self._outcome = Outcome()

    def run(self) -> Outcome:
        """Compare everything; return what must be."""
        ground, partition, report = self._ground, self._partition, self._ground.report
        quarantine = read_quarantine(self.read(QUARANTINED), partition, report)
        self._outcome.rejected = quarantine.rejected_late()
        drains = read_drains(self.read("drain.status"), partition, ground.clock, ground.rules)
        judge = Judge(ground.clock, ground.rules, ground.accounts, ground.book)
        verdicts = judge.judge(self.read("usage"), self._place)
        sources = SourceAudit(self._rating, drains, ground.clock, ground.rules)
        lines = read_lines(self.read("charges"), self._place, report)
        pending = read_pending(self.read("charges.pending"), partition, report)
        waits: dict[str, list[Span]] = defaultdict(list)
        for key, fields in pending.items():
            waits[key.rpartition("/")[0]].append((int(str(fields[9])), int(str(fields[10]))))
        for outcome in self._each(verdicts, sources, quarantine):
            for found in outcome.rated:
                key = found.use.key
                self._compare(found, lines.pop(key, []), waits.get(key, []), quarantine)
        for rest in lines.values():
            compare_lines([], rest, partition, report)
        compare_records(quarantine, verdicts.refused, drains, partition, report)
        report_spans_of_nothing(quarantine, partition, report)
        compare_pending(self._waiting, pending, partition, report)
        return self._outcome

    def read(self, topic: str) -> Iterator[tuple[int, Entry]]:
        """Yield the partition's records of a topic with their steps."""
        ground = self._ground
        for step, entry in records(ground.log, topic, self._partition, ground.clock.last):
            ground.tell(1)
            yield step, entry

    def _each(
        self, verdicts: Verdicts, sources: SourceAudit, quarantine: Quarantine
    ) -> Iterator[SourceOutcome]:
        """Yield what every source must have: the attempts on the same devices together."""
        report = self._ground.report
        parts: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
        for source, uses in verdicts.uses.items():
            parts[uses[0].lease, uses[0].node].append((uses[0].attempt, source))
        for part in sorted(parts):
            lower: list[Use] = []
            for _, source in sorted(parts[part]):
                uses = verdicts.uses.pop(source)
                outcome = sources.outcome(uses, lower, quarantine.never(source))
                lower += outcome.counted.uses.values()
                for use, code in outcome.counted.refused:
                    verdicts.refused[use.offset] = Refused.of(use, code)
                for use in outcome.counted.repeated:
                    report.counts["repeated"] += 1
                    report.macc_ms["repeated"] += use.macc * (use.end_ms - use.start_ms)
                compare_gaps(quarantine, source, outcome.gaps, self._partition, report)
                yield outcome
        for source in sorted(quarantine.gaps):
            compare_gaps(quarantine, source, [], self._partition, report)

    def _compare(
        self, must: RatedUse, found: list[Line], waiting: list[Span], quarantine: Quarantine
    ) -> None:
        """Compare one record with what is on the log of it, and keep what it must have."""
        use, rated, report = must.use, must.rated, self._ground.report
        self._follow(use, rated)
        taken = must.taken
        compare_spans(quarantine, (use, OVERLAP), must.lost, self._partition, report)
        lost = length_ms(taken) * use.macc
        report.counts["usage"] += 1
        report.macc_ms[OVERLAP] += lost
        if rated is None:
            report.macc_ms["not_due"] += (use.end_ms - use.start_ms) * use.macc - lost
            compare_lines([], found, self._partition, report)
            return
        given_up = joined([part.span for part in must.given_up])
        compare_spans(quarantine, (use, NEVER_PRICED), must.given_up, self._partition, report)
        lines = [*rated.lines(), *must.credits]
        compare_lines(lines, found, self._partition, report)
        away = [*taken, *given_up]
        compare_coverage(use, found, [*waiting, *away], self._partition, report)
        self._compare_sums(use, away, rated, found)
        offsets = {line.charge_id: line.offset for line in found}
        for line in lines:
            self._keep(line._replace(offset=offsets.get(line.charge_id, AT_THE_END)))
        self._count(use, rated, given_up)

    def _compare_sums(self, use: Use, away: list[Span], rated: Rated, found: list[Line]) -> None:
        """Add up the lines of a record, and what it costs instant by instant."""
        ground, where = self._ground, f"charges/{self._partition}"
        charged = sum(line.numerator for line in found if line.kind == RATED)
        credited = sum(line.numerator for line in found if line.kind == CREDITED)
        if charged + credited < 0:
            ground.report.add("credit_too_large", where, use.key, charged, -credited)
        if not rated.is_final:
            return
        spans = without([(use.start_ms, use.end_ms)], away)
        cost = cost_now(ground.book, use, spans, ground.rules, ground.clock.last)
        if cost != charged:
            ground.report.add("record_sum", where, use.key, cost, charged)

    def _follow(self, use: Use, rated: Rated | None) -> None:
        """Note since when a record is rated, and when it had no price."""
        due = AT_THE_END if rated is None else rated.due
        if rated is not None:
            first = self._outcome.rated.get(use.team, (AT_THE_END, ""))
            self._outcome.rated[use.team] = min(first, (due, use.pool))
        if use.is_free or use.team not in self._ground.members.budgeted:
            return
        waits = [(use.arrival, due, (use.start_ms, use.end_ms))]
        changes = [] if rated is None else rated.timeline
        for number, (step, pieces) in enumerate(changes):
            until = changes[number + 1][0] if number + 1 < len(changes) else AT_THE_END
            waits += [
                (step, until, (piece.start_ms, piece.end_ms))
                for piece in pieces
                if piece.price_micro is None
            ]
        self._outcome.unrated[use.team] += [
            Unrated(
                *(use.key, use.market, use.pool, use.limit_micro, use.tariff_ppm * use.macc),
                *(span, since, until),
            )
            for since, until, span in waits
            if since < until
        ]

    def _keep(self, line: Line) -> None:
        kind, sign = (CREDIT, -1) if line.kind == CREDITED else (USAGE, 1)
        if line.numerator:
            self._outcome.amounts[line.step].append((line.account, kind, sign * line.numerator))
        self._outcome.lines[line.account].append(line)
        money = self._ground.report.account(*line.account)
        if line.kind == CREDITED:
            money.credited += line.numerator
        else:
            money.rated += line.numerator

    def _count(self, use: Use, rated: Rated, given_up: list[Span]) -> None:
        """Count what became of the use of a record, and keep what waits."""
        macc_ms = self._ground.report.macc_ms
        macc_ms[NEVER_PRICED] += length_ms(given_up) * use.macc
        for piece in rated.pieces:
            span = (piece.start_ms, piece.end_ms)
            size = length_ms([span]) * use.macc
            if piece.price_micro is None:
                fields = self._rating.use_fields(use, span, "")[:-1]
                self._waiting[f"{use.key}/{piece.start_ms}"] = fields
                macc_ms["pending"] += size
            elif use.is_free:
                macc_ms["opportunistic" if use.billable else "unbilled"] += size
            else:
                macc_ms["charged"] += size
