"""report.html: one self-contained page drawn from report.json alone."""

from collections.abc import Mapping
from html import escape
from typing import Any

from walras.report import words
from walras.report.money import money_section
from walras.report.placement_section import placement_section
from walras.report.sections import chart_sections
from walras.report.style import CSS
from walras.report.tables import table_sections


def page(report: Mapping[str, Any]) -> str:
    """Return the page; it loads nothing from anywhere."""
    scenario, window = report["scenario"], report["window"]
    title = f"Walras: {scenario['title']}"
    partial = "" if window["complete"] else " · <b>stopped early</b>"
    subtitle = (
        f'<p class="sub">Scenario <code>{escape(scenario["name"])}</code> · seed '
        f"{report['seed']} · {report['hours']} h of market time, "
        f"{words.moment(window['start_ms'])} to {words.moment(window['covered_until_ms'])}"
        f"{partial} · one cycle every {window['interval_ms'] // 1000} s</p>"
    )
    body = "".join(
        [
            f"<h1>{escape(scenario['title'])}</h1>",
            subtitle,
            _cards(report),
            *chart_sections(report),
            placement_section(report),
            money_section(report),
            *table_sections(report),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _cards(report: Mapping[str, Any]) -> str:
    jobs, cycles, fairness = report["jobs"], report["cycles"], report["fairness"]
    waits, latency = jobs["wait_to_first_start_ms"], report["latency"]["tick_to_commit_ms"]
    dense = "none missing, none doubled" if cycles["dense"] else "NOT dense: see below"
    submitted, waiting = words.count(jobs["submitted"]), words.count(jobs["waiting_at_end"])
    money = fairness["global_mean_price_micro"]
    cards = [
        (
            "Occupancy",
            words.percent(report["occupancy"]["occupancy_ppm"]),
            "of supplied time leased",
        ),
        (
            "Opportunistic",
            words.percent(report["occupancy"]["opportunistic_share_ppm"]),
            "of leased time ran at price 0",
        ),
        ("Mean price paid", words.credits_of(money), "credits per accelerator-hour"),
        (
            "Fairness",
            words.ratio(fairness["max_min_share_ratio_ppm"]),
            "largest / smallest use per income, by team",
        ),
        (
            "Queue wait",
            words.duration(waits["p50"]),
            f"p50 · p90 {words.duration(waits['p90'])} · p99 {words.duration(waits['p99'])}",
        ),
        (
            "Jobs finished",
            words.count(jobs["finished"]),
            f"of {submitted} submitted · {waiting} waiting at the end",
        ),
        ("Cycles", words.count(cycles["count"]), f"per market · {dense}"),
        (
            "Tick to commit",
            words.NONE if latency["p50"] is None else f"{latency['p50']} ms",
            f"p50 · p99 {words.count(latency['p99'])} ms, from the driver's send",
        ),
    ]
    return (
        '<div class="cards">'
        + "".join(
            f'<div class="card"><span class="name">{escape(name)}</span><b>{escape(value)}</b>'
            f"<span>{escape(note)}</span></div>"
            for name, value, note in cards
        )
        + "</div>"
    )
