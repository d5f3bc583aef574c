"""Which command stands for which part of a session, effect by effect.

The last command of a part is the one that its agent obeys, so a session keeps the command that
stands; what changes of it is written to the log.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from walras_contracts.drains import DrainCommand
from walras_drain.parts import CANCEL_REJECTED, Part
from walras_drain.session import Cancel, Session
from walras_drain.transitions import Effect


@dataclass(frozen=True, slots=True)
class _Telling:
    """Which command an effect makes stand, for whom, and where the cancel stands then."""

    command: DrainCommand | None
    whom: Callable[[Session, Part], bool]
    cancel: Cancel | None = None


def _is_open(_: Session, part: Part) -> bool:
    return part.is_open


def _can_go_on(session: Session, part: Part) -> bool:
    """Whether a part may be waiting to be told to go on.

    A part alone went back, or was too far, by itself, and its answer may be on its way; one of a
    gang that is committed goes on anyway, and still has to say that a cancel came too late.
    """
    return session.gang > 1 and part.is_open and not part.is_committed


def _is_done(_: Session, part: Part) -> bool:
    return part.is_closed or part.back


_TELLINGS: Final[Mapping[Effect, _Telling]] = {
    Effect.COMMAND: _Telling(DrainCommand.DRAIN, _is_open),
    Effect.ASK: _Telling(DrainCommand.CANCEL, _is_open, Cancel.ASKED),
    Effect.REFUSE: _Telling(DrainCommand.CANCEL, _is_open, Cancel.REFUSED),
    Effect.RESUME: _Telling(DrainCommand.RESUME, _can_go_on, Cancel.REFUSED),
    Effect.CONFIRM: _Telling(DrainCommand.CONFIRM, _is_open, Cancel.ACCEPTED),
    Effect.CALL_OFF: _Telling(DrainCommand.CANCEL, _is_open, Cancel.ACCEPTED),
    Effect.RELEASE: _Telling(None, _is_done),
}


def told(session: Session, effect: Effect) -> Session:
    """Return a session with the commands, and the cancel, that an effect makes stand."""
    telling = _TELLINGS.get(effect)
    if telling is None or (effect is Effect.RESUME and session.cancel is not Cancel.ASKED):
        return session
    command = telling.command
    if effect is Effect.CALL_OFF and session.gang > 1:
        # No part was told to drain, so none has to hold still first.
        command = DrainCommand.CONFIRM
    parts = tuple(
        replace(part, command=command) if telling.whom(session, part) else part
        for part in session.parts
    )
    session = replace(session, parts=parts, cancel=telling.cancel or session.cancel)
    if telling.cancel is Cancel.REFUSED:
        return replace(session, outcome=CANCEL_REJECTED, again=None)
    return session
