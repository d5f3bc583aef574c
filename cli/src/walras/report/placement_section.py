"""The section on placement and drains: wasted quota, waits, preemptions, lost work, drains."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from walras.report import words
from walras.report.bars import Bar, Group, bar_chart
from walras.report.charts import PALETTE
from walras.report.sections import section
from walras.report.tables import html_table

GEOMETRIES_SHOWN = 12


def placement_section(report: Mapping[str, Any]) -> str:
    """Return the section as HTML."""
    placement = report["placement"]
    parts = [
        _facts(report),
        "<h3>Bought quota that nobody occupied</h3>",
        _markets(placement["markets"]),
        _stuck(report),
        '<div class="grid2"><div><h3>Jobs with quota and without devices</h3>',
        _geometries(placement["markets"]),
        "</div><div><h3>What waiting jobs waited for</h3>",
        _reasons(placement["waits"]["by_reason"]),
        "</div></div>",
        '<div class="grid2"><div><h3>Who was asked to leave, and what it cost</h3>',
        _preemptions(placement["leases"]),
        "</div><div><h3>Drain sessions</h3>",
        _drains(report["drains"]),
        "</div></div>",
    ]
    policies = ", ".join(f"{k} {v}" for k, v in report["scenario"]["policies"].items())
    note = (
        "What became of quota that whole jobs cannot spend, and of jobs that had to leave"
        f"{f' ({policies})' if policies else ''}; all of it from the log."
    )
    return section("placement", "Placement and drains", note, "".join(parts))


def _percentiles(found: Mapping[str, int | None]) -> str:
    """Return p50, p90 and p99 of durations in one line."""
    return " / ".join(words.duration(found[name]) for name in ("p50", "p90", "p99"))


def _facts(report: Mapping[str, Any]) -> str:
    placement, drains = report["placement"], report["drains"]
    total, waits, leases = placement["total"], placement["waits"], placement["leases"]
    preempted, caps = leases["preempted"], drains["caps"]
    lost = (
        f"{words.accelerator_seconds(preempted['repeated_macc_ms'])} repeated, "
        f"{words.accelerator_seconds(preempted['unsaved_macc_ms'])} of it by jobs that save nothing"
    )
    wasted = (
        f"{words.accelerator_hours(total['unspent_macc_ms'])} acc·h, "
        f"{words.percent(total['unspent_share_ppm'])} of what was bought"
    )
    capped = (
        f"{words.count(caps['sessions_held_up'])} drains held up "
        f"({words.count(caps['by_budget'])} by a budget, {words.count(caps['by_distance'])} by "
        f"the distance between drains), {words.count(caps['begun_beyond_budget'])} begun "
        f"beyond; {words.count(total['preemption_cycles_detected'])} preemption cycles broken"
    )
    first = _percentiles(report["jobs"]["wait_to_first_start_ms"])
    facts = (
        ("jobs finished", words.count(report["jobs"]["finished"])),
        ("starts, restarts included", words.count(waits["starts"])),
        ("wait to first start, p50 / p90 / p99", first),
        ("wait of gangs to first start", _percentiles(waits["wait_of_gangs_ms"])),
        ("longest a gang with quota waited", words.duration(total["gang_wait_most_ms"])),
        ("all the wait of finished jobs", _percentiles(waits["wait_of_finished_ms"])),
        ("preemptions", words.count(preempted["leases"])),
        ("allowed to stay after all", words.count(leases["allowed_to_stay"])),
        ("lost accelerator-seconds", lost),
        ("wasted quota", wasted),
        ("deadline misses", words.count(total["deadline_misses"])),
        ("frequency caps", capped),
    )
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f'<dl style="margin-bottom:14px">{items}</dl>'


def _markets(markets: Mapping[str, Any]) -> str:
    heads = (
        *("Market", "Rounding", "Bought (acc·h)", "Unspent (acc·h)", "Share", "No devices (acc·h)"),
        *("No job fits (acc·h)", "Cycles with unplaced", "Longest gang wait", "Starts"),
        *("Mean wait", "Misses"),
    )
    rows = []
    for market, found in markets.items():
        why, starts = found["unspent_why"], found["started_jobs"]
        rows.append(
            (
                market,
                found["rounding"],
                words.accelerator_hours(found["bought_macc_ms"]),
                words.accelerator_hours(found["unspent_macc_ms"]),
                words.percent(found["unspent_share_ppm"]),
                words.accelerator_hours(why["short_of_devices_macc_ms"]),
                words.accelerator_hours(why["no_fitting_job_macc_ms"]),
                f"{words.count(found['cycles_with_unplaced_jobs'])} of {found['cycles']:,}",
                words.duration(found["gang_wait_most_ms"]),
                words.count(starts),
                words.duration(found["started_wait_ms"] // starts if starts else None),
                words.count(found["deadline_misses"]),
            )
        )
    return html_table(heads, rows, 2, set())


def _stuck(report: Mapping[str, Any]) -> str:
    """Tell of first jobs that cannot use their team's quota, and of demand cut because of them."""
    found = [
        f"{market}, {reason.replace('_', ' ')}: {heads['cycles']:,} team-cycles, "
        f"{words.accelerator_hours(heads['unspent_macc_ms'], 1)} acc·h unspent"
        for market, figures in report["placement"]["markets"].items()
        for reason, heads in figures["stuck_heads"].items()
    ]
    cut = [
        f"{market}: {count:,} to {extent.replace('_', ' ')}"
        for market, cycles in report["cycles"]["markets"].items()
        for extent, count in cycles["released"].items()
    ]
    told = (
        ("First jobs that waited long and cannot use their team's quota", found),
        ("Demand cut by rounding release", cut),
    )
    return "".join(
        f'<p class="sub">{escape(title)}: {escape("; ".join(lines))}.</p>'
        for title, lines in told
        if lines
    )


def _geometries(markets: Mapping[str, Any]) -> str:
    heads = ("Market", "Cell", "Devices", "Cycles", "Jobs (h)", "acc·h", "Longest wait")
    found = [
        (shape["macc_ms"], market, shape)
        for market, figures in markets.items()
        for shape in figures["unplaced_by_geometry"]
    ]
    found.sort(key=lambda each: (-each[0], each[1], each[2]["cell"], each[2]["devices"]))
    rows = [
        (
            market,
            shape["cell"],
            words.count(shape["devices"]),
            words.count(shape["cycles"]),
            f"{shape['job_ms'] / 3_600_000:,.1f}",
            words.accelerator_hours(macc_ms, 1),
            words.duration(shape["longest_wait_ms"]),
        )
        for macc_ms, market, shape in found[:GEOMETRIES_SHOWN]
    ]
    more = len(found) - len(rows)
    rest = f'<p class="sub">{more} shapes with less are in report.json</p>' if more > 0 else ""
    return html_table(heads, rows, 2, set()) + rest


def _reasons(by_reason: Mapping[str, Any]) -> str:
    groups = [
        Group(
            (reason or "not told").replace("_", " "),
            [
                Bar(
                    found["macc_ms"] / words.MACC_MS_PER_ACCELERATOR_HOUR,
                    PALETTE[0],
                    f"{words.accelerator_hours(found['macc_ms'])} acc·h",
                )
            ],
        )
        for reason, found in by_reason.items()
    ]
    return bar_chart(
        "Accelerator-hours that waiting jobs asked for, by what they waited for",
        "accelerator-hours asked for",
        groups,
        name_width=130,
        bar_height=14,
    )


def _preemptions(leases: Mapping[str, Any]) -> str:
    heads = ("Reason", "Asked", "Left", "Ran (acc·h)", "Repeated (acc·s)", "Unsaved (acc·s)")
    asked, left = leases["asked_to_leave"], leases["preempted_by_reason"]
    nothing = {"leases": 0, "ran_macc_ms": 0, "repeated_macc_ms": 0, "unsaved_macc_ms": 0}
    rows = []
    for reason in sorted({**asked, **left}):
        cost = left.get(reason, nothing)
        rows.append(
            (
                reason.replace("_", " "),
                words.count(asked.get(reason, 0)),
                words.count(cost["leases"]),
                words.accelerator_hours(cost["ran_macc_ms"], 1),
                words.accelerator_seconds(cost["repeated_macc_ms"]),
                words.accelerator_seconds(cost["unsaved_macc_ms"]),
            )
        )
    return html_table(heads, rows, 1, set())


def _drains(drains: Mapping[str, Any]) -> str:
    ends = list(drains["ended"])
    rows = [
        (reason.replace("_", " "), *(words.count(found.get(end, 0)) for end in ends))
        for reason, found in drains["by_reason"].items()
    ]
    rows.append(("all", *(words.count(drains["ended"][end]) for end in ends)))
    heads: Sequence[str] = ("Cause", *(end.replace("_", " ") for end in ends))
    took, allowed, used = (
        drains[name] for name in ("time_to_free_ms", "time_allowed_ms", "used_of_allowed_ppm")
    )
    note = (
        f"{words.count(drains['begun'])} begun; command to freed p50 {words.seconds(took['p50'])},"
        f" p99 {words.seconds(took['p99'])} of {words.seconds(allowed['p50'])} (p50 "
        f"{words.percent(used['p50'], 0)}, p99 {words.percent(used['p99'], 0)} of the time "
        f"allowed); {words.count(drains['freed_after_deadline'])} after the deadline, "
        f"{words.count(drains['forced'])} by SIGKILL."
    )
    return html_table(heads, rows, 1, {len(rows) - 1}) + f'<p class="sub">{escape(note)}</p>'
