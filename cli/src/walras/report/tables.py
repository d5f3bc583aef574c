"""The written sections of the report: teams, log and digests, scenario, definitions."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from walras.report import words
from walras.report.sections import section

_MILLI = "_milli_accelerators"


def table_sections(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the written sections as HTML."""
    yield _teams(report)
    yield _digests(report)
    yield _log(report)
    yield _scenario(report)
    yield _definitions(report)


def html_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], left: int, marks: set[int]
) -> str:
    """Return a table; the first ``left`` columns are words, rows in ``marks`` begin a group."""

    def side(column: int) -> str:
        return ' class="left"' if column < left else ""

    head = "".join(f"<th{side(i)}>{escape(word)}</th>" for i, word in enumerate(heads))
    body = "".join(
        ('<tr class="first">' if number in marks else "<tr>")
        + "".join(f"<td{side(i)}>{escape(cell)}</td>" for i, cell in enumerate(row))
        + "</tr>"
        for number, row in enumerate(rows)
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _teams(report: Mapping[str, Any]) -> str:
    heads = (
        "Pool",
        "Team",
        "Income (cr)",
        "Spent (cr)",
        "Wallet (cr)",
        "Used (acc·h)",
        "of it free",
        "Idle, paid (acc·h)",
        "Share of income",
        "Share of use",
        "Mean price (cr)",
        "f",
        "Jobs",
        "Finished",
        "Waiting",
        "Wait p50",
        "Wait p90",
    )
    rows, marks, before = [], set(), None
    for number, row in enumerate(report["teams"]):
        if row["pool"] != before:
            marks.add(number)
            before = row["pool"]
        used = row["used_macc_ms"]
        free_ppm = row["opportunistic_macc_ms"] * 1_000_000 // used if used else None
        rows.append(
            (
                row["pool"] if number in marks else "",
                row["team"],
                words.credits_of(row["income_micro"], 0),
                words.credits_of(row["spent_micro"], 0),
                words.credits_of(row["wallet_micro"], 0),
                words.accelerator_hours(used),
                words.percent(free_ppm, 0),
                words.accelerator_hours(row["idle_paid_macc_ms"]),
                words.percent(row["share_of_income_ppm"]),
                words.percent(row["share_of_use_ppm"]),
                words.credits_of(row["mean_price_micro"]),
                words.ratio(row["price_ratio_ppm"]),
                words.count(row["jobs_submitted"]),
                words.count(row["jobs_finished"]),
                words.count(row["jobs_waiting_at_end"]),
                words.duration(row["wait_to_first_start_ms"]["p50"]),
                words.duration(row["wait_to_first_start_ms"]["p90"]),
            )
        )
    settled = words.moment(report["settled_until_ms"])
    note = (
        f"Income, spent and wallet as settled up to {settled}; use and price up to the end. "
        "A start pays for five minutes; those behind its end are idle, and no use."
    )
    return section("teams", "Teams", note, html_table(heads, rows, 2, marks))


def _digests(report: Mapping[str, Any]) -> str:
    items = "".join(
        f"<dt>{escape(topic)}</dt><dd><code>{escape(digest)}</code></dd>"
        for topic, digest in report["digests"].items()
    )
    note = "Two runs that decided the same have the same digests, whatever processes ran them."
    return section("digests", "Digests of what was decided", note, f"<dl>{items}</dl>")


def _log(report: Mapping[str, Any]) -> str:
    topics = [
        (
            topic,
            words.count(found["events"]),
            words.count(found["barriers"]),
            words.count(found["tombstones"]),
        )
        for topic, found in report["events"].items()
    ]
    cycles = [
        (
            market,
            words.count(found["count"]),
            f"{found['first']} – {found['last']}",
            words.count(found["missing"]),
            words.count(found["doubled"]),
            ", ".join(f"{state} {words.count(n)}" for state, n in found["states"].items()),
        )
        for market, found in report["cycles"]["markets"].items()
    ]
    body = (
        '<div class="grid2"><div><h3>Records per topic</h3>'
        + html_table(("Topic", "Events", "Barriers", "Tombstones"), topics, 1, set())
        + "</div><div><h3>Cycles per market</h3>"
        + html_table(
            ("Market", "Cycles", "Numbers", "Missing", "Doubled", "States"), cycles, 1, set()
        )
        + _run(report["run"])
        + "</div></div>"
    )
    note = "What was counted in the log; barriers stand in every partition and are counted there."
    return section("log", "The log", note, body)


def _run(run: Mapping[str, Any]) -> str:
    if not run:
        return ""
    items = "".join(
        f"<dt>{escape(str(name).replace('_', ' '))}</dt><dd>{escape(str(value))}</dd>"
        for name, value in run.items()
    )
    return f'<h3 style="margin-top:18px">This run</h3><dl>{items}</dl>'


def _scenario(report: Mapping[str, Any]) -> str:
    scenario = report["scenario"]
    real = "".join(f"<li>{escape(fact)}</li>" for fact in scenario["real"])
    invented = "".join(f"<li>{escape(fact)}</li>" for fact in scenario["invented"])
    facts = "".join(
        f"<dt>{escape(name.removesuffix(_MILLI).replace('_', ' '))}</dt>"
        f"<dd>{_fact(name, value)}</dd>"
        for name, value in scenario["trace_facts"].items()
    )
    types = ", ".join(f"{name} {n:,}" for name, n in scenario["devices_by_type"].items())
    trace = "".join(
        f"<dt>trace {escape(name)}</dt><dd><code>{escape(value)}</code></dd>"
        for name, value in scenario["trace"].items()
    )
    body = (
        f'<div class="grid2"><div><h3>Real: from the trace</h3><ul>{real}</ul></div>'
        f"<div><h3>Invented: by the scenario</h3><ul>{invented}</ul></div></div>"
        f'<dl style="margin-top:14px">{facts}<dt>accelerators by type</dt>'
        f"<dd>{escape(types)}</dd>{trace}</dl>"
    )
    note = "What of this run was recorded in a real cluster, and what was made up."
    return section("scenario", "Scenario", note, body)


def _fact(name: str, value: int) -> str:
    if name.endswith(_MILLI):
        return f"{value / 1000:,.1f} accelerators"
    return words.count(value)


def _definitions(report: Mapping[str, Any]) -> str:
    items = "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(text)}</dd>"
        for name, text in report["definitions"].items()
    )
    note = "How the figures are computed; report.json holds them all as integers."
    return section("definitions", "Definitions", note, f"<dl>{items}</dl>")
