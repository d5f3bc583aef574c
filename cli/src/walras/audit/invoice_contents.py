"""What an invoice says, beside its lines and in them, against what it must say."""

from collections import Counter

from walras.audit.expected_invoices import CREDIT, Content, LineKey, Lines, exact_sum
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


def roundings(lines: Lines, payable_micro: int) -> Counter[LineKey]:
    """Return by how many half µcr the whole amount of each line of a team's invoice may be off.

    Credits are rounded by themselves. The other lines share what that leaves of what is payable, by
    largest remainder: each is off by less than one µcr, or by less than all of them together.
    """
    exact = exact_sum(lines.items())
    off = abs(payable_micro * RATE_DENOMINATOR - exact.used - exact.credited)
    credits_count = sum(key.kind == CREDIT for key in lines)
    halves = credits_count + -(-2 * off // RATE_DENOMINATOR)
    return Counter(dict.fromkeys(lines, max(2, halves)))


def compare_content(
    revision: Revision, content: Content, halves: Counter[LineKey], report: AuditReport
) -> None:
    """Compare the lines of an invoice with the charges that belong on it.

    Parameters
    ----------
    revision
        The invoice.
    content
        What it must say.
    halves
        By how many half µcr the whole amount of each line may be off.
    report
        Told of what differs.
    """
    found: Lines = {}
    for key, sums, amount_micro in revision.lines():
        if key in found:
            report.add("invoice_differs", revision.where, revision.subject, "", f"{key} twice")
        found[key] = sums
        off = abs(amount_micro * RATE_DENOMINATOR - sums.numerator)
        if 2 * off > halves.get(key, 2) * RATE_DENOMINATOR:
            report.add(
                *("invoice_differs", revision.where, revision.subject),
                *(f"{rounded_micro(sums.numerator)} for {key}", amount_micro),
            )
    if content.lines == found:
        return
    for name in sorted(content.lines.keys() | found.keys(), key=str):
        one, other = content.lines.get(name), found.get(name)
        if one != other:
            report.add("invoice_differs", revision.where, revision.subject, f"{name}: {one}", other)
