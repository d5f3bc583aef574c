"""What drain asks of placement: one request per lease, until it is answered or its cause is gone.

Placement answers with a vacate at its next step, and that opens a session. What is asked for is a
level, not an event: in every step the causes say which leases should leave.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from walras_contracts.drains import SessionState, VacateReason
from walras_drain.session import Session

PREFIX: Final = "request/"

FIRST_TO_LAST: Final = (
    VacateReason.ORDERED,
    VacateReason.MAINTENANCE,
    VacateReason.LOW_USE,
    VacateReason.PRESSURE,
)
"""Which cause is named where there are several."""
CAN_BE_CALLED_OFF: Final = frozenset({VacateReason.ORDERED, VacateReason.MAINTENANCE})
"""Reasons whose end cancels a drain that was begun; the others only end a request."""


@dataclass(frozen=True, slots=True)
class Request:
    """A lease was asked to leave at ``asked_ms``; ``taken_back``: and the drain to be cancelled."""

    reason: VacateReason
    asked_ms: int
    taken_back: bool = False

    def dump(self) -> bytes:
        """Return the record of the own state."""
        fields = [self.reason.value, self.asked_ms, self.taken_back]
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def parse(value: bytes) -> "Request":
        """Read the record of the own state."""
        reason, asked_ms, taken_back = json.loads(value)
        return Request(VacateReason(reason), asked_ms, taken_back)


@dataclass(frozen=True, slots=True)
class Move:
    """What becomes of a request: the one that stands then, and whether placement is told.

    ``tell`` None: nothing is; else ``cancel`` of the event, with ``reason``.
    """

    request: Request | None
    tell: bool | None = None
    reason: VacateReason | None = None


def first_cause(causes: Mapping[VacateReason, bool]) -> VacateReason | None:
    """Return the cause to name, of those that hold."""
    return next((reason for reason in FIRST_TO_LAST if causes.get(reason)), None)


def next_move(
    wanted: VacateReason | None,
    request: Request | None,
    session: Session | None,
    *,
    now_ms: int,
    distance_ms: int,
    caused_ms: int,
) -> Move:
    """Decide what to ask placement about a lease.

    Parameters
    ----------
    wanted
        Why it should leave; None: it need not.
    request
        The request that stands.
    session
        The last session of the lease.
    now_ms
        Market time of the step.
    distance_ms
        How long a lease whose drain was cancelled is not asked again for an older cause.
    caused_ms
        Since when there is a cause.
    """
    if session is not None and not session.is_ended:
        return _while_it_leaves(wanted, request, session, now_ms)
    if request is not None and session is not None and session.opened_ms > request.asked_ms:
        request = None
    if request is None:
        asks = session is None or _may_ask_again(session, now_ms - distance_ms, caused_ms)
    elif wanted is None:
        return Move(None, tell=True, reason=request.reason)
    else:
        asks = wanted is not request.reason
    if wanted is not None and asks:
        return Move(Request(wanted, now_ms), tell=False, reason=wanted)
    return Move(request)


def _may_ask_again(session: Session, until_ms: int, caused_ms: int) -> bool:
    """Whether a lease is asked again after a session.

    Not one that was freed, whose record is about to end, nor one whose drain failed: its agents
    have been told to drain it, and still are.
    """
    if session.state is not SessionState.CANCELLED or session.ended_ms is None:
        return False
    return session.ended_ms <= max(until_ms, caused_ms)


def _while_it_leaves(
    wanted: VacateReason | None, request: Request | None, session: Session, now_ms: int
) -> Move:
    if request is None:
        return Move(None)
    if wanted is not None:
        if not request.taken_back:
            return Move(request)
        return Move(Request(wanted, now_ms), tell=False, reason=wanted)
    off = (
        request.reason in CAN_BE_CALLED_OFF
        and request.reason is session.reason
        and not request.taken_back
    )
    if not off:
        return Move(request)
    return Move(
        Request(request.reason, request.asked_ms, taken_back=True), tell=True, reason=request.reason
    )
