"""The invoices of pools: each sums up those of its teams over the same period.

Its lines are those of the teams as they stand, with what they leave out, without jobs. Where these
are too many, they leave out more: first prices, then teams.
"""

from collections import Counter

from walras.audit.account_invoices import InvoiceGround, PoolSum
from walras.audit.expected_invoices import (
    OF_POOL,
    Content,
    LineKey,
    coarse,
    few_enough,
    invoice_id,
)
from walras.audit.invoice_contents import compare_content, compare_head
from walras.audit.invoice_revisions import DRAFT, ISSUED, VOIDED, Revision
from walras.audit.log_view import INVOICES


def audit_pools(ground: InvoiceGround) -> None:
    """Compare the invoices of all pools with the sums of those of their teams."""
    for pool, revisions in sorted(ground.book.of_pool.items()):
        for revision in revisions:
            ground.report.counts["invoices"] += 1
            _compare(ground, pool, revision)
    hourly = ground.last_hourly_step()
    for name, must in sorted(ground.pools.items()):
        held = ground.book.revisions.get(name)
        if held is None:
            ground.report.add(
                "invoice_missing", INVOICES, f"{name} of a pool", "an invoice", "none"
            )
        elif held.step < must.newest <= hourly:
            expected = f"a revision with what its teams told in step {must.newest}"
            found = f"the last is of {held.step}"
            ground.report.add("invoice_missing", held.where, held.subject, expected, found)


def _compare(ground: InvoiceGround, pool: str, revision: Revision) -> None:
    must = ground.pools.get(revision.invoice_id)
    report = ground.report
    if must is None or not must.states:
        report.add("invoice_unexpected", revision.where, revision.subject)
        return
    period = ground.periods.of(pool, revision.body["start_ms"])
    if invoice_id("pool", pool, "", period) != revision.invoice_id:
        report.add("invoice_unexpected", revision.where, revision.subject)
        return
    lines, detail = few_enough(must.lines, 0, OF_POOL)
    halves: Counter[LineKey] = Counter()
    for key, count in must.halves.items():
        halves[coarse(key, OF_POOL[:detail])] += count
    content = Content(revision.invoice_id, period, lines, must.rejected_late_macc_ms)
    compare_head(revision, content, (None, pool), report)
    compare_content(revision, content, halves, report)
    for name, expected, found in (
        ("payable_micro", must.payable_micro, revision.payable_micro),
        ("state", _state(must), revision.body["state"]),
    ):
        if expected != found:
            report.add(
                *("invoice_differs", revision.where, revision.subject),
                *(f"{name} {expected}", f"{name} {found}"),
            )


def _state(must: PoolSum) -> str:
    """Return where a pool's invoice stands by those of its teams."""
    if DRAFT in must.states:
        return DRAFT
    return ISSUED if ISSUED in must.states else VOIDED
