"""The invoices as the log has them: the last revision of each, and when it was issued or voided."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from walras.audit.expected_invoices import Content, LineKey, Sums, invoice_id
from walras.audit.invoice_periods import Period
from walras.audit.log_view import INVOICES, Entry
from walras.audit.report import AuditReport
from walras.audit.rows import Document, UnreadableError, contract_document, whole
from walras_contracts.invoices import InvoicePublished, InvoiceRefused

DRAFT, ISSUED, VOIDED = "draft", "issued", "voided"
NEVER: Final = 2**62


@dataclass(slots=True)
class Revision:
    """The last revision of an invoice.

    ``issued``, ``voided``: the steps in which it became so.
    """

    where: str
    step: int
    body: Document
    issued: int = NEVER
    voided: int = NEVER

    @property
    def invoice_id(self) -> str:
        """Its id."""
        return str(self.body["invoice_id"])

    @property
    def subject(self) -> str:
        """Return which invoice it is."""
        whose = self.body["team"] or "all teams"
        return f"{self.invoice_id} of {whose} in {self.body['pool']} from {self.body['start_ms']}"

    @property
    def payable_micro(self) -> int:
        """What is to be paid."""
        return int(self.body["payable_micro"])

    @property
    def numerator(self) -> int:
        """The exact sum of its lines, as it says."""
        return whole(self.body, "amount_numerator")

    def state_at(self, step: int) -> str:
        """Return where it stood after a step."""
        if self.voided <= step:
            return VOIDED
        return ISSUED if self.issued <= step else DRAFT

    def lines(self) -> list[tuple[LineKey, Sums, int]]:
        """Return its lines with their whole amounts."""
        return [_line(line) for line in self.body["lines"]]


def _line(line: Document) -> tuple[LineKey, Sums, int]:
    key = LineKey(*(line[name] for name in LineKey._fields))
    sums = Sums(
        *(line["first_ms"], line["last_ms"], whole(line, "macc_ms"), line["charges"]),
        whole(line, "amount_numerator"),
    )
    return key, sums, line["amount_micro"]


@dataclass(slots=True)
class InvoiceBook:
    """All invoices of a log, by id; those of a team by team and pool; those of pools by pool."""

    last: int
    """The barrier up to which they are read."""
    revisions: dict[str, Revision] = field(default_factory=dict)
    of_account: dict[tuple[str, str], list[Revision]] = field(
        default_factory=lambda: defaultdict(list)
    )
    of_pool: dict[str, list[Revision]] = field(default_factory=lambda: defaultdict(list))

    def state_of(self, content: Content, step: int) -> str:
        """Return where an invoice stood after a step; one that is not there is a draft."""
        held = self.revisions.get(content.invoice_id)
        return DRAFT if held is None else held.state_at(step)

    def pool_revision(self, pool: str, period: Period) -> Revision | None:
        """Return the invoice of a pool over a period."""
        return self.revisions.get(invoice_id("pool", pool, "", period))


def read_invoices(
    given: Iterable[tuple[int, Entry]], partition: int, book: InvoiceBook, report: AuditReport
) -> None:
    """Read a partition of ``invoices``; revisions that leave out a number are reported."""
    for step, entry in given:
        where = f"{INVOICES}/{partition}@{entry.offset}"
        if entry.type == InvoiceRefused.TYPE:
            continue
        try:
            body = contract_document(entry, InvoicePublished)
            _take(book, Revision(where, step, body), entry.key, report)
        except UnreadableError as error:
            report.add("unreadable", where, entry.key, "an invoice", repr(error))


def _take(book: InvoiceBook, revision: Revision, key: str, report: AuditReport) -> None:
    body: dict[str, Any] = revision.body
    lines = revision.lines()
    report.counts["invoice revisions"] += 1
    name = revision.invoice_id
    if key != name:
        report.add("invoice_differs", revision.where, revision.subject, "its id as key", key)
    amounts = sum(amount for *_, amount in lines)
    if amounts != revision.payable_micro:
        report.add(
            "invoice_differs",
            *(revision.where, revision.subject),
            *(f"payable_micro {amounts}, the sum of its lines", revision.payable_micro),
        )
    numerators = sum(sums.numerator for _, sums, _ in lines)
    if numerators != revision.numerator:
        report.add(
            "invoice_differs",
            *(revision.where, revision.subject),
            *(f"amount_numerator {numerators}, the sum of its lines", revision.numerator),
        )
    before = book.revisions.get(name)
    number = 0 if before is None else before.body["revision"] + 1
    if body["revision"] != number:
        found = f"revision {body['revision']}"
        report.add("invoice_missing", revision.where, revision.subject, f"revision {number}", found)
    if before is None:
        held = book.of_pool[body["pool"]]
        if body["team"] is not None:
            held = book.of_account[body["team"], body["pool"]]
        held.append(revision)
    else:
        revision.issued, revision.voided = before.issued, before.voided
    if body["state"] in (ISSUED, VOIDED):
        revision.issued = min(revision.issued, revision.step)
    if body["state"] == VOIDED:
        revision.voided = min(revision.voided, revision.step)
    if before is not None:
        before.where, before.step, before.body = revision.where, revision.step, body
        before.issued, before.voided = revision.issued, revision.voided
        return
    book.revisions[name] = revision
