"""The money section of the report: each team's income, spending and wallet, its dearest jobs."""

from collections.abc import Mapping
from html import escape
from typing import Any

from walras.report import words
from walras.report.charts import PALETTE, Line, legend, line_chart
from walras.report.sections import MICRO, axis_of, scaled, section
from walras.report.tables import html_table

INCOME, SPENT, WALLET = PALETTE[2], PALETTE[1], PALETTE[0]
_WIDTH, _HEIGHT = 352, 210


def money_section(report: Mapping[str, Any]) -> str:
    """Return the section as HTML."""
    money = report["money"]
    keys = legend([("income", INCOME), ("spent", SPENT), ("wallet", WALLET)])
    charts = "".join(
        f"<div><h3>{escape(team)}</h3>{_chart(report, team, found)}</div>"
        for team, found in money["teams"].items()
    )
    body = f'{keys}<div class="grid3">{charts}</div>' if charts else "<p>The ledger is empty.</p>"
    if money["balances_that_differ"]:
        names = ", ".join(money["balances_that_differ"])
        body += f"<p><b>Balances that are not the sum of their entries: {escape(names)}</b></p>"
    body += f'<h3 style="margin-top:14px">Jobs that cost most</h3>{_jobs(money)}'
    settled = words.moment(money["settled_until_ms"])
    note = f"Running totals of the ledger, settled up to {settled}; jobs by their charge lines."
    return section("money", "Money", note, body)


def _chart(report: Mapping[str, Any], team: str, found: Mapping[str, Any]) -> str:
    lines = [
        Line(name, color, scaled(found[f"{name}_micro"], MICRO), width, dashed)
        for name, color, width, dashed in (
            ("income", INCOME, 1.3, True),
            ("spent", SPENT, 1.3, False),
            ("wallet", WALLET, 1.8, False),
        )
    ]
    label = f"Income, spending and wallet of {team}"
    return line_chart(
        label, "credits", axis_of(report), lines, width=_WIDTH, height=_HEIGHT, steps=True
    )


def _jobs(money: Mapping[str, Any]) -> str:
    heads = ("Team", "Job", "Markets", "Paid (acc·h)", "Free (acc·h)", "Mean price (cr)")
    rows: list[tuple[str, ...]] = []
    marks: set[int] = set()
    for team, jobs in money["largest_jobs"].items():
        marks.add(len(rows))
        for number, job in enumerate(jobs):
            rows.append(
                (
                    team if number == 0 else "",
                    job["job"],
                    ", ".join(job["markets"]),
                    words.accelerator_hours(job["paid_macc_ms"], 2),
                    words.accelerator_hours(job["free_macc_ms"], 2),
                    words.credits_of(job["mean_price_micro"]),
                    words.credits_of(job["use_micro"]),
                    words.credits_of(job["credits_micro"]),
                )
            )
    return html_table((*heads, "Use (cr)", "Credits (cr)"), rows, 3, marks)
