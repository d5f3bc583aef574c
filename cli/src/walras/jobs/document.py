"""Jobs as JSON: amounts in micro-credits, quantities in thousandths, times in milliseconds."""

from typing import Any

from walras.jobs.job_views import JobView
from walras.jobs.reading import Jobs
from walras.jobs.words import why


def jobs_document(jobs: Jobs) -> dict[str, Any]:
    """Return jobs for ``--json``; what is not known is null."""
    return {
        "barrier": None if jobs.barrier is None else jobs.barrier.number,
        "market_time_ms": jobs.now_ms,
        "jobs": [job_document(view) for view in jobs.jobs],
    }


def job_document(view: JobView) -> dict[str, Any]:
    """Return one job."""
    status, queued, place = view.status, view.queued, view.place
    return {
        "team": view.team,
        "job": view.job,
        "pool": None if queued is None else queued.pool,
        "state": view.state,
        "withdrawn": queued is not None and queued.cancelled,
        "waiting": _waiting(view),
        "queue": None
        if place is None or queued is None
        else {
            "place": place.place,
            "waiting": place.waiting,
            "before_macc": place.before_macc,
            "order": place.order.value,
            "position": queued.position,
        },
        "size_macc": None if queued is None else queued.size_macc,
        "limit_micro": view.limit_micro,
        "revision": None if queued is None else queued.revision,
        "prices": [
            {
                "type": price.type,
                "price_micro": price.price_micro,
                "cycle": price.cycle,
                "verdict": price.verdict.value,
                "short_by_micro": price.short_by_micro,
            }
            for price in view.prices
        ],
        "status": None if status is None else status.model_dump(mode="json"),
        "queued": None if queued is None else queued.model_dump(mode="json"),
        "lease": None if status is None else status.lease,
        "nodes": [
            {
                "node": part.node,
                "devices": list(part.devices),
                "size_macc": part.size_macc,
                "may_start": part.may_start,
                "said": None
                if (said := view.parts_said.get(part.node)) is None
                else said.state.value,
            }
            for part in view.parts
        ],
        "drain": None if view.session is None else view.session.model_dump(mode="json"),
    }


def _waiting(view: JobView) -> dict[str, Any] | None:
    """Return why a job waits: the figures are those of the cycle in which it was said."""
    status = view.status
    if not view.is_pending or status is None:
        return None
    return {
        "reason": status.reason,
        "words": why(view),
        "needed_macc": status.needed_macc,
        "available_macc": status.available_macc,
        "short_by_macc": view.short_by_macc,
        "cycle": view.cycle,
        "said_ms": status.changed_ms,
    }
