"""What an invoice says, beside its lines and in them, against what it must say."""

from collections import Counter
from fractions import Fraction

from walras.audit.expected_invoices import CREDIT, DETAILS, Content, LineKey, Lines, coarser
from walras.audit.invoice_revisions import Revision
from walras.audit.report import AuditReport, rounded_micro
from walras.audit.rows import RATE_DENOMINATOR


def compare_head(
    revision: Revision, content: Content, account: tuple[str | None, str], report: AuditReport
) -> None:
    """Compare what an invoice says beside its lines."""
    period = content.period
    must = {
        "scope": "pool" if account[0] is None else "team",
        "team": account[0],
        "pool": account[1],
        "period": period.kind,
        "zone": period.zone,
        "start_ms": period.start_ms,
        "end_ms": period.end_ms,
        "due_ms": period.due_ms,
        "rejected_late_macc_ms": str(content.rejected_late_macc_ms),
    }
    for name, value in must.items():
        if revision.body[name] != value:
            report.add(
                *("invoice_differs", revision.where, revision.subject),
                *(f"{name} {value}", f"{name} {revision.body[name]}"),
            )


def compare_content(
    revision: Revision, content: Content, parts: Counter[LineKey], report: AuditReport
) -> None:
    """Compare the lines of an invoice with the charges that belong on it.

    Parameters
    ----------
    revision
        The invoice.
    content
        What it must say.
    parts
        How often the amount of each line was rounded.
    report
        Told of what differs.
    """
    found: Lines = {}
    credits_count = sum(key.kind == CREDIT for key in content.lines)
    # Credits are rounded by themselves; what that leaves the other lines share.
    slack = (1 + Fraction(credits_count, 2)) * RATE_DENOMINATOR
    most = parts.total()
    for key, sums, amount_micro in revision.lines():
        if key in found:
            report.add("invoice_differs", revision.where, revision.subject, "", f"{key} twice")
        found[key] = sums
        often = parts.get(key, most)
        if abs(amount_micro * RATE_DENOMINATOR - sums.numerator) > often * slack:
            report.add(
                *("invoice_differs", revision.where, revision.subject),
                *(f"{rounded_micro(sums.numerator)} for {key}", amount_micro),
            )
    for without in DETAILS:
        must = coarser(content.lines, without) if without else content.lines
        if _same(must, found, is_exact=not without):
            return
    for name in sorted(content.lines.keys() | found.keys(), key=str):
        one, other = content.lines.get(name), found.get(name)
        if one != other:
            report.add("invoice_differs", revision.where, revision.subject, f"{name}: {one}", other)


def _same(must: Lines, found: Lines, *, is_exact: bool) -> bool:
    if is_exact:
        return must == found
    return must.keys() == found.keys() and all(
        (line.macc_ms, line.numerator) == (found[key].macc_ms, found[key].numerator)
        for key, line in must.items()
    )
