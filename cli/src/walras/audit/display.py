"""What an audit found, for people."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from walras.audit.report import CODES, AuditReport, Difference, rounded_micro

DIFFERENCES_SHOWN: Final = 20
"""Of each kind; `--json` shows more."""
TEAMS_SHOWN: Final = 40
MACC_MS_A_HOUR: Final = 3_600_000_000


def report_tables(report: AuditReport) -> list[Table]:
    """Return the tables: money by team, use by what became of it, differences by kind."""
    tables = []
    if report.money:
        tables.append(_money(report))
    if report.macc_ms or report.quarantined:
        tables.append(_use(report))
    by_code: dict[str, list[Difference]] = defaultdict(list)
    for difference in report.differences:
        by_code[difference.code].append(difference)
    return tables + [
        _differences(code, report.found[code], by_code[code]) for code in CODES if code in by_code
    ]


def report_lines(report: AuditReport) -> list[str]:
    """Return what was compared, what is in flight, and the outcome."""
    at = _moment(report.market_time_ms)
    counted = ", ".join(f"{count:,} {name}" for name, count in sorted(report.counts.items()))
    lines = [f"up to barrier {report.barrier} ({at}): {counted}"]
    lines.append(
        "nothing is settled yet"
        if report.boundary_ms is None
        else f"settled up to {_moment(report.boundary_ms)}"
    )
    if report.invoice_barrier is None:
        lines.append("no invoices: none are on the log, so none are compared")
    elif report.invoice_barrier < report.barrier:
        lines.append(f"invoices up to barrier {report.invoice_barrier} only")
    for name, total in report.in_flight().items():
        if total and not (name == "invoices" and report.invoice_barrier is None):
            lines.append(f"in flight to the {name}: {rounded_micro(total):,} µcr")
    if report.is_clean:
        return [*lines, "clean: all is as usage, prices, accounts and drains ask for"]
    total = sum(report.found.values())
    return [*lines, f"{total:,} differences in {len(report.found)} kinds"]


def _money(report: AuditReport) -> Table:
    rows = [
        (
            *(team, pool, f"{rounded_micro(money.rated):,}", f"{rounded_micro(money.credited):,}"),
            f"{rounded_micro(money.posted):,}",
            f"{rounded_micro(money.invoiced):,}" if report.invoice_barrier is not None else "–",
        )
        for (team, pool), money in sorted(
            report.money.items(), key=lambda item: (-item[1].owed, item[0])
        )
    ]
    shown = rows[:TEAMS_SHOWN]
    return _table(
        f"Money in µcr: the {len(shown)} of {len(rows)} accounts with the most",
        ("team", "pool", "charged", "credited", "in the ledger", "on invoices"),
        shown,
        text=2,
    )


def _use(report: AuditReport) -> Table:
    rows = [(name, "", _hours(total)) for name, total in sorted(report.macc_ms.items()) if total]
    rows += [
        (f"quarantined: {code}", f"{count:,}", _hours(report.quarantined_macc_ms[code]))
        for code, count in sorted(report.quarantined.items())
    ]
    return _table("What became of use", ("", "records", "accelerator-hours"), rows, text=1)


def _differences(code: str, count: int, found: Sequence[Difference]) -> Table:
    shown = found[:DIFFERENCES_SHOWN]
    title = f"{code}: {CODES[code]} ({len(shown)} of {count:,})"
    rows = [(d.where, d.subject, d.expected, d.found) for d in shown]
    return _table(title, ("where", "what", "must be", "is"), rows, text=4)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], text: int) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < text else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _hours(macc_ms: int) -> str:
    thousandths = macc_ms * 1000 // MACC_MS_A_HOUR
    return f"{thousandths // 1000:,}.{thousandths % 1000:03d}"
