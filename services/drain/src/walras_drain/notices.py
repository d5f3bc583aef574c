"""Notices to teams. Ids follow from what they are about, so no notice is issued twice."""

from typing import Final

from walras_contracts.drains import (
    NodeDrainChanged,
    NoticeKind,
    NotificationIssued,
    SessionState,
    VacateReason,
)
from walras_contracts.identifiers import digest_of, recorded
from walras_drain.lease_table import Holding
from walras_drain.parts import TEXT_MAX
from walras_drain.session import Session

DAY_S: Final = 86_400


def warning(session: Session, now_ms: int) -> NotificationIssued:
    """Return the notice that a drain has begun: why, and until when."""
    deadline_ms = session.deadline_ms
    until = "" if deadline_ms is None else f" by {clock_time(deadline_ms)} UTC"
    text = f"{session.job} must leave {_nodes(session)}{until}: {session.reason.value}"
    if session.beyond_budget:
        text += "; this exceeds the disruption budget of its team"
    return _of_session(session, NoticeKind.DRAIN_WARNING, text, now_ms, deadline_ms)


def cancelled(session: Session, now_ms: int) -> NotificationIssued:
    """Return the notice that a drain is off."""
    text = f"{session.job} stays on {_nodes(session)}: its drain is cancelled"
    return _of_session(session, NoticeKind.DRAIN_CANCELLED, text, now_ms)


def ended(session: Session, now_ms: int) -> NotificationIssued:
    """Return the notice of how a drain ended."""
    if session.state is SessionState.FREED:
        text = f"{session.job} has left {_nodes(session)}"
    else:
        because = "; ".join((session.outcome, *session.blockers()))
        text = f"{session.job} did not leave {_nodes(session)} in time: {because}"
    return _of_session(session, NoticeKind.DRAIN_ENDED, text, now_ms)


def advisory(lease: Holding, use_ppm: int, expires_ms: int, now_ms: int) -> NotificationIssued:
    """Return the notice that a drain is likely, because the market of a lease is nearly full."""
    return NotificationIssued(
        notification=digest_of("notice", NoticeKind.DRAIN_ADVISORY, lease.lease, str(now_ms)),
        kind=NoticeKind.DRAIN_ADVISORY,
        team=lease.team,
        job=lease.job,
        lease=lease.lease,
        session=None,
        reason=VacateReason.PRESSURE,
        text=f"market {lease.market} is {use_ppm // 10_000} % full: {lease.job} may have to leave",
        deadline_ms=None,
        expires_ms=expires_ms,
        issued_ms=now_ms,
    )


def escalated(
    emptying: NodeDrainChanged, team: str, leases: int, now_ms: int
) -> NotificationIssued:
    """Return the notice that a node is not empty although its time is over."""
    since = clock_time(emptying.deadline_ms)
    text = f"node {emptying.node} was to be empty by {since} UTC; {team} has {leases} leases there"
    which = str(emptying.since_ms)
    return _of_node(
        NoticeKind.DRAIN_ESCALATED, emptying.node, team, which, text=text, now_ms=now_ms
    )


def node_lost(node: str, team: str, leases: int, now_ms: int) -> NotificationIssued:
    """Return the notice that the agent of a node is silent."""
    text = f"node {node} is silent; {leases} leases of {team} ran there and start elsewhere"
    return _of_node(NoticeKind.NODE_LOST, node, team, str(now_ms), text=text, now_ms=now_ms)


def clock_time(market_time_ms: int) -> str:
    """Return the time of day of a market time, UTC, to the second."""
    second = market_time_ms // 1000 % DAY_S
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def _nodes(session: Session) -> str:
    return ", ".join(part.node for part in session.parts)


def _of_session(
    session: Session, kind: NoticeKind, text: str, now_ms: int, deadline_ms: int | None = None
) -> NotificationIssued:
    return NotificationIssued(
        notification=digest_of("notice", kind, session.session),
        kind=kind,
        team=session.team,
        job=session.job,
        lease=session.lease,
        session=session.session,
        reason=session.reason,
        text=recorded(text, TEXT_MAX),
        deadline_ms=deadline_ms,
        expires_ms=None,
        issued_ms=now_ms,
    )


def _of_node(
    kind: NoticeKind, node: str, team: str, which: str, *, text: str, now_ms: int
) -> NotificationIssued:
    return NotificationIssued(
        notification=digest_of("notice", kind, node, team, which),
        kind=kind,
        team=team,
        job=None,
        lease=None,
        session=None,
        reason=kind.value,
        text=recorded(text, TEXT_MAX),
        deadline_ms=None,
        expires_ms=None,
        issued_ms=now_ms,
    )
