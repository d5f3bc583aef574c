"""Jobs for the terminal: a table of many, a page of one."""

from rich.table import Table

from walras.billing_log.window import moment
from walras.jobs.job_views import JobView
from walras.jobs.reading import Jobs
from walras.jobs.words import (
    NONE,
    in_cycle,
    limit_words,
    nodes_words,
    order_words,
    place_words,
    price_words,
    session_words,
    why,
)
from walras.jobs_log.units import accelerators_text, duration_text
from walras_contracts.identifiers import job_key
from walras_contracts.work import JobState


def as_of(jobs: Jobs) -> str:
    """Return the time of what is shown."""
    if jobs.barrier is None:
        return "the log has no barrier yet"
    at = moment(jobs.barrier.market_time_ms)
    return f"as of barrier {jobs.barrier.number}, {at}; prices in credits per accelerator-hour"


def jobs_table(jobs: Jobs) -> Table:
    """Return a row for each job."""
    table = Table(title=as_of(jobs), title_justify="left", title_style="")
    for name in ("job", "state"):
        table.add_column(name, overflow="fold")
    table.add_column("accelerators", justify="right")
    table.add_column("place", justify="right")
    table.add_column("limit", justify="right")
    table.add_column("prices", overflow="fold")
    table.add_column("why it waits, how it leaves", overflow="fold")
    table.add_column("cycle", justify="right")
    table.add_column("lease", overflow="fold")
    table.add_column("nodes", overflow="fold")
    for view in jobs.jobs:
        table.add_row(
            job_key(view.team, view.job),
            state_words(view),
            NONE if view.queued is None else accelerators_text(view.queued.size_macc),
            place_words(view),
            NONE if view.queued is None else limit_words(view.queued.limit_micro),
            "\n".join(price_words(price) for price in view.prices) or NONE,
            _story(view, jobs.now_ms),
            in_cycle(view),
            _lease(view) or NONE,
            nodes_words(view),
        )
    return table


def state_words(view: JobView) -> str:
    """Return where a job stands."""
    words = [view.state]
    if view.status is not None and view.status.work_class is not None:
        words.append(view.status.work_class.value)
    if view.queued is not None and view.queued.cancelled and not view.has_ended:
        words.append("withdrawn")
    return ", ".join(words)


def page_lines(view: JobView, jobs: Jobs) -> list[str]:
    """Return all that is known of a job."""
    status, queued = view.status, view.queued
    pool = f" of pool {queued.pool}" if queued is not None else ""
    found = [f"{job_key(view.team, view.job)}{pool}: {state_words(view)}; {as_of(jobs)}"]
    rows: list[tuple[str, str]] = []
    if view.is_pending:
        reason = f" [{status.reason}]" if status is not None and status.reason else ""
        since = ""
        if status is not None and status.reason:
            since = f"; said {moment(status.changed_ms)}, cycle {in_cycle(view)}"
        rows.append(("waits", f"{why(view)}{reason}{since}"))
        rows.append(("queue", order_words(view)))
    if status is not None:
        rows.append(("waited", f"{duration_text(status.waited_ms)}, up to the last change"))
        rows.append(("attempt", str(status.attempt)))
        if status.started_ms is not None:
            rows.append(("started", moment(status.started_ms)))
        if status.remaining_run_ms is not None:
            rows.append(("left to run", duration_text(status.remaining_run_ms)))
    if queued is not None:
        rows += _wish(view)
    if (lease := _lease(view)) is not None:
        rows.append(("lease", lease))
    for part in view.parts:
        said = view.parts_said.get(part.node)
        state = "nothing said yet" if said is None else said.state.value
        if said is not None and said.detail:
            state += f" ({said.detail})"
        devices = ", ".join(str(index) for index in part.devices)
        rows.append((f"  {part.node}", f"devices {devices}: {state}"))
    if view.session is not None:
        rows.append(("drain", session_words(view.session, jobs.now_ms)))
    width = max((len(name) for name, _ in rows), default=0)
    return found + [f"  {name:<{width}}  {text}" for name, text in rows]


def _wish(view: JobView) -> list[tuple[str, str]]:
    queued = view.queued
    assert queued is not None
    gang = "all of them or none" if queued.gang else "any part of them"
    rows = [
        ("wants", f"{accelerators_text(queued.size_macc)} accelerators, {gang}"),
        ("limit", f"{limit_words(queued.limit_micro)} (revision {queued.revision})"),
    ]
    for price in view.prices:
        cycle = "" if price.cycle is None else f" (cycle {price.cycle})"
        rows.append(("  price", f"{price_words(price)}{cycle}"))
    rows.append(("drainability", queued.drainability.value))
    if queued.expected_run_ms is not None:
        rows.append(("expected run", duration_text(queued.expected_run_ms)))
    if queued.minimum_run_ms:
        rows.append(("minimum run", duration_text(queued.minimum_run_ms)))
    if queued.deadline_ms is not None:
        rows.append(("deadline", moment(queued.deadline_ms)))
    rows.append(("submitted", moment(queued.submitted_ms)))
    return rows


def _story(view: JobView, now_ms: int | None) -> str:
    if view.is_draining and view.session is not None:
        return session_words(view.session, now_ms)
    if view.status is not None and view.status.state is JobState.DRAINING:
        return "asked to leave; no drain session is told yet"
    return why(view)


def _lease(view: JobView) -> str | None:
    return None if view.status is None else view.status.lease
