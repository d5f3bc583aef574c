"""The drawn sections of the report: prices, occupancy, queue, waits, fairness."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from walras.report import words
from walras.report.bars import Bar, Group, bar_chart
from walras.report.charts import INK, PALETTE, Area, Axis, Line, legend, line_chart

BOUGHT, OVERHANG, FREE = "#3b82b8", "#c2410c", "#a8d5ba"
MICRO = 1_000_000
HOUR_MS = 3_600_000
_SMALL_WIDTH, _SMALL_HEIGHT = 352, 230


def chart_sections(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the drawn sections as HTML."""
    yield _prices(report)
    yield _occupancy(report)
    yield _queue(report)
    yield _waits(report)
    yield _fairness(report)


def section(name: str, heading: str, note: str, body: str) -> str:
    """Return a section with its anchor, heading and one line of explanation."""
    return f'<section id="{name}"><h2>{escape(heading)}</h2><p>{escape(note)}</p>{body}</section>'


def axis_of(report: Mapping[str, Any]) -> Axis:
    """Return the time axis of the report's bins."""
    window = report["window"]
    covered_ms = window["covered_until_ms"] - window["start_ms"]
    return Axis(report["bins"]["width_ms"] / HOUR_MS, max(covered_ms, 1) / HOUR_MS)


def scaled(values: Sequence[int | None], unit: int) -> list[float | None]:
    """Return values in a larger unit, to draw them."""
    return [None if value is None else value / unit for value in values]


def _whole(values: Sequence[int], unit: int) -> list[float]:
    return [value / unit for value in values]


def _prices(report: Mapping[str, Any]) -> str:
    axis = axis_of(report)
    markets = report["prices"]
    lines = [
        Line(market, PALETTE[i % len(PALETTE)], scaled(found["reference_micro"], MICRO), 2)
        for i, (market, found) in enumerate(markets.items())
    ]
    whole = line_chart(
        "Reference price per market over time",
        "credits / accelerator-hour",
        axis,
        lines,
    )
    pools = sorted({pool for found in markets.values() for pool in found["pools"]})
    color = {pool: PALETTE[i % len(PALETTE)] for i, pool in enumerate(pools)}
    small = []
    for market, found in markets.items():
        drawn = [
            Line(pool, color[pool], scaled(values, MICRO), 1.1)
            for pool, values in found["pools"].items()
        ]
        reference = Line("reference", INK, scaled(found["reference_micro"], MICRO), 1.8, True)
        drawn.append(reference)
        chart = line_chart(
            f"Pool prices in {market}",
            "credits / accelerator-hour",
            axis,
            drawn,
            width=_SMALL_WIDTH,
            height=_SMALL_HEIGHT,
        )
        above = words.percent(found["cycles_above_zero_ppm"], 0)
        small.append(
            f"<div><h3>{escape(market)}</h3>{chart}"
            f'<p class="sub">mean {words.credits_of(found["mean_micro"])} · above zero in {above} '
            f"of cycles</p></div>"
        )
    body = (
        legend([(line.name, line.color) for line in lines])
        + whole
        + '<h3 style="margin-top:14px">Prices inside the pools</h3>'
        + legend([("reference price (dashed)", INK), *color.items()])
        + f'<div class="grid3">{"".join(small)}</div>'
    )
    note = (
        "Reference price: what shared supply costs. A pool's own supply lowers the price inside "
        f"the pool. Means over {words.duration(report['bins']['width_ms'])}."
    )
    return section("prices", "Prices", note, body)


def _occupancy(report: Mapping[str, Any]) -> str:
    axis = axis_of(report)
    small = []
    for market, found in report["occupancy"]["markets"].items():
        bought = [
            leased - free - overhang
            for leased, free, overhang in zip(
                found["leased_macc"],
                found["opportunistic_macc"],
                found["overhang_macc"],
                strict=True,
            )
        ]
        areas = [
            Area("bought or own", BOUGHT, _whole(bought, 1000)),
            Area("leaving", OVERHANG, _whole(found["overhang_macc"], 1000)),
            Area("opportunistic", FREE, _whole(found["opportunistic_macc"], 1000)),
        ]
        lines = [Line("supply", INK, scaled(found["supply_macc"], 1000), 1.6, True)]
        chart = line_chart(
            f"Occupancy of {market}",
            "accelerators",
            axis,
            lines,
            areas,
            width=_SMALL_WIDTH,
            height=_SMALL_HEIGHT,
        )
        small.append(
            f"<div><h3>{escape(market)}</h3>{chart}"
            f'<p class="sub">{words.percent(found["occupancy_ppm"])} occupied · '
            f"{words.percent(found['opportunistic_share_ppm'])} of it opportunistic</p></div>"
        )
    keys = [
        ("bought or own", BOUGHT),
        ("leaving (overhang)", OVERHANG),
        ("opportunistic", FREE),
        ("supply (dashed)", INK),
    ]
    body = legend(keys) + f'<div class="grid3">{"".join(small)}</div>'
    note = "Accelerators leased, from metered use, against what capacity published."
    return section("occupancy", "Occupancy", note, body)


def _queue(report: Mapping[str, Any]) -> str:
    axis = axis_of(report)
    queue = report["jobs"]["queue"]
    charts = []
    for heading, unit, values in (
        ("Jobs waiting", "jobs", scaled(queue["jobs"], 1)),
        ("Accelerators they ask for", "accelerators", scaled(queue["accelerators_milli"], 1000)),
    ):
        line = Line(heading, PALETTE[0], values, 1.6)
        chart = line_chart(heading, unit, axis, [line], width=530, height=230, steps=True)
        charts.append(f"<div><h3>{heading}</h3>{chart}</div>")
    note = "Pending jobs at the end of each interval, from job states."
    return section("queue", "Queue", note, f'<div class="grid2">{"".join(charts)}</div>')


def _waits(report: Mapping[str, Any]) -> str:
    jobs = report["jobs"]
    charts = []
    for heading, key, color in (
        ("Jobs that started: wait to first start", "wait_to_first_start_ms", PALETTE[0]),
        ("Jobs that never started: wait so far", "wait_so_far_of_never_started_ms", PALETTE[1]),
    ):
        found = jobs[key]
        groups = [
            Group(
                name,
                [
                    Bar(
                        None if found[name] is None else found[name] / HOUR_MS,
                        color,
                        words.duration(found[name]),
                    )
                ],
            )
            for name in ("p50", "p90", "p99", "max")
        ]
        chart = bar_chart(heading, "hours", groups, name_width=44, bar_height=14)
        charts.append(f"<div><h3>{heading} ({words.count(found['jobs'])} jobs)</h3>{chart}</div>")
    note = "Queue-wait percentiles in market time; opportunistic jobs included."
    return section("waits", "Waits", note, f'<div class="grid2">{"".join(charts)}</div>')


def _fairness(report: Mapping[str, Any]) -> str:
    rows = [row for row in report["teams"] if row["jobs_submitted"]]
    prices = [
        Group(
            row["team"],
            [
                Bar(
                    None if row["price_ratio_ppm"] is None else row["price_ratio_ppm"] / MICRO,
                    PALETTE[0],
                    words.ratio(row["price_ratio_ppm"]),
                )
            ],
        )
        for row in rows
    ]
    shares = [
        Group(
            row["team"],
            [
                Bar(
                    _hundredths(row["share_of_income_ppm"]),
                    "#9aa7b4",
                    words.percent(row["share_of_income_ppm"]),
                ),
                Bar(
                    _hundredths(row["share_of_use_ppm"]),
                    PALETTE[2],
                    words.percent(row["share_of_use_ppm"]),
                ),
            ],
        )
        for row in rows
    ]
    left = bar_chart(
        "Price paid by each team against the mean",
        "× mean price paid",
        prices,
        mark=1.0,
        bar_height=14,
        pitch=28,
    )
    right = bar_chart(
        "Share of income and of use by team", "% of all teams", shares, bar_height=10, pitch=28
    )
    body = (
        f'<div class="grid2"><div><h3>Price paid / mean price paid (f)</h3>'
        f"{legend([('f of the team; dashed: the mean', PALETTE[0])])}{left}</div>"
        f"<div><h3>Share of income and share of use</h3>"
        f"{legend([('share of income', '#9aa7b4'), ('share of use', PALETTE[2])])}{right}"
        "</div></div>"
    )
    found = report["fairness"]
    note = (
        f"f lies between {words.ratio(found['price_ratio_minimum_ppm'])} and "
        f"{words.ratio(found['price_ratio_maximum_ppm'])}; use per income between "
        f"{words.ratio(found['share_ratio_minimum_ppm'])} and "
        f"{words.ratio(found['share_ratio_maximum_ppm'])} (all leased time, opportunistic too)."
    )
    return section("fairness", "Fairness", note, body)


def _hundredths(ppm: int | None) -> float | None:
    return None if ppm is None else ppm / 10_000
