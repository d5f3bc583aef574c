"""Why a job waits, what it costs and how it leaves, in words."""

from typing import Final

from walras.billing_log.amounts import credits_text
from walras.billing_log.window import moment
from walras.jobs.job_views import JobView, TypePrice, Verdict
from walras.jobs_log.units import accelerators_text, duration_text
from walras_contracts.accounts import QueueOrder
from walras_contracts.drains import DrainSessionChanged, SessionState, VacateReason
from walras_contracts.wait_reasons import WaitReason

NONE: Final = "–"

REASONS: Final[dict[WaitReason, str]] = {
    WaitReason.NO_SUCH_TYPE: "no usable device of a type that it accepts exists",
    WaitReason.EXCEEDS_SUPPLY: "it is larger than all usable devices of any type it accepts",
    WaitReason.PRICE_ABOVE_LIMIT: "the price is above its limit",
    WaitReason.WAITING_FOR_QUOTA: "its team has not enough quota",
    WaitReason.WAITING_FOR_DEVICES: "its team has the quota, others still hold the devices",
    WaitReason.TOPOLOGY: "enough devices are free, but not on one node or in one domain",
    WaitReason.PARKED: "it failed again and again, and is tried again later",
    WaitReason.HELD_BACK: "it was evicted not long ago, and may not start again yet",
    WaitReason.BUDGET_EXHAUSTED: "its team may not spend any more",
}
VACATE_REASONS: Final[dict[VacateReason, str]] = {
    VacateReason.QUOTA_LOST: "its quota is gone",
    VacateReason.PRICE_ABOVE_LIMIT: "the price is above its limit",
    VacateReason.CANCELLED: "it was withdrawn",
    VacateReason.DEVICE_WITHDRAWN: "one of its devices must not be used any more",
    VacateReason.LEFT_QUEUE: "it left the queue",
    VacateReason.BUDGET_EXHAUSTED: "its team may not spend any more",
    VacateReason.MAINTENANCE: "its node is to be emptied",
    VacateReason.PRESSURE: "its market is nearly full, and it runs on what nobody bought",
    VacateReason.LOW_USE: "it hardly uses its devices",
    VacateReason.ORDERED: "it was ordered",
    VacateReason.GANG_BROKEN: "another part of its gang is gone",
}


def why(view: JobView) -> str:
    """Return why a job waits, with its figures; empty where it does not."""
    status = view.status
    if not view.is_pending:
        return ""
    if status is None or not status.reason:
        return "placement has not looked at it yet"
    known = {reason.value: words for reason, words in REASONS.items()}
    words = [known.get(status.reason, status.reason)]
    if status.needed_macc:
        words.append(
            f"needs {accelerators_text(status.needed_macc)}, "
            f"available {accelerators_text(status.available_macc)}, "
            f"short by {accelerators_text(view.short_by_macc)}"
        )
    return ": ".join(words)


def in_cycle(view: JobView) -> str:
    """Return the cycle in which it was said why a job waits."""
    return NONE if view.cycle is None else str(view.cycle)


def price_words(price: TypePrice) -> str:
    """Return what a type costs, against the limit."""
    if price.verdict is Verdict.UNKNOWN:
        return f"{price.type} unknown"
    text = f"{price.type} {credits_text(price.price_micro)}"
    if price.verdict is Verdict.ABOVE:
        return f"{text}, {credits_text(price.short_by_micro)} above the limit"
    return text


def limit_words(limit_micro: int | None) -> str:
    """Return a limit."""
    return "none" if limit_micro is None else credits_text(limit_micro)


def place_words(view: JobView) -> str:
    """Return the place in the queue of the team."""
    place = view.place
    return NONE if place is None else f"{place.place} of {place.waiting}"


def order_words(view: JobView) -> str:
    """Return the place in the queue with what goes before, and by what it is ordered."""
    place = view.place
    if place is None or view.queued is None:
        return "it does not wait"
    by = "earliest deadline first" if place.order is QueueOrder.DEADLINE else "first come first"
    return (
        f"{place.place} of {place.waiting} of its team ({by}), "
        f"{accelerators_text(place.before_macc)} accelerators before it; "
        f"position {view.queued.position}"
    )


def session_words(session: DrainSessionChanged, now_ms: int | None) -> str:
    """Return how far a drain is, by when it ends, and what it waits for."""
    state = session.state.value + (f" ({session.outcome})" if session.outcome else "")
    words = [f"{state}: {VACATE_REASONS[session.reason]}"]
    if session.state is SessionState.PENDING:
        words.append("the guardrail does not let it begin yet")
    if session.deadline_ms is not None:
        words.append(f"ends by {moment(session.deadline_ms)}{left(session.deadline_ms, now_ms)}")
    if session.beyond_budget:
        words.append("beyond the disruption budget of its team")
    if session.blockers:
        words.append(f"waits for {'; '.join(session.blockers)}")
    return ", ".join(words)


def left(deadline_ms: int, now_ms: int | None) -> str:
    """Return how much time is left, or since when it is over."""
    if now_ms is None:
        return ""
    if deadline_ms >= now_ms:
        return f" (in {duration_text(deadline_ms - now_ms)})"
    return f" (over since {duration_text(now_ms - deadline_ms)})"


def nodes_words(view: JobView) -> str:
    """Return the nodes of a job, with how many devices."""
    if not view.parts:
        return NONE
    return ", ".join(f"{part.node} ({len(part.devices)})" for part in view.parts)
