"""The life of a drain session as a table: every pair of state and event has one answer.

A session may have several parts, one per node. Its state is that of its least advanced part, and
the events are those of the session as a whole: ``said_waiting`` means that the last part of them
came to wait (:mod:`walras_drain.sessions` turns what agents say into events).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from walras_contracts.drains import SessionState


class SessionEvent(StrEnum):
    """What happens to a session."""

    COMMANDED = "commanded"
    """The guardrail lets it begin."""
    SAID_WARNED = "said_warned"
    SAID_CHECKPOINTING = "said_checkpointing"
    SAID_WAITING = "said_waiting"
    SAID_TERMINATING = "said_terminating"
    SAID_VERIFYING = "said_verifying"
    FREED = "freed"
    """No part is open any more, and the agents said of all that their devices are free."""
    SAID_FAILED = "said_failed"
    """No part is open any more, and of one the agent said that its devices did not become free."""
    WITHDRAWN = "withdrawn"
    """Placement lets the lease stay."""
    ASKED_AGAIN = "asked_again"
    """Placement asks once more that the lease leave."""
    CANCEL_ACCEPTED = "cancel_accepted"
    """The agent that holds the only part went back to running."""
    CANCEL_REJECTED = "cancel_rejected"
    """A part was too far, or is gone or lost while others hold still."""
    GANG_HOLDS = "gang_holds"
    """All parts hold still."""
    DEADLINE_PASSED = "deadline_passed"
    NODE_LOST = "node_lost"
    """One of its nodes has been silent for too long."""
    NODE_BACK = "node_back"
    LEASE_GONE = "lease_gone"
    """Placement ended the record of the last part, without a word of its agent."""


class Effect(StrEnum):
    """What is done beside the change of state."""

    COMMAND = "command"
    """Tell all agents to drain."""
    COUNT = "count"
    """Count it in the disruption budget, and the warning in the score."""
    WARN = "warn"
    """Tell the team, with reason and deadline."""
    ASK = "ask"
    """Ask the agents to go back, or to hold still."""
    REFUSE = "refuse"
    """Ask the agents that are committed, so that they say that it is too late."""
    RESUME = "resume"
    """Tell those that hold still to go on."""
    CONFIRM = "confirm"
    """Tell all agents that the cancel is accepted."""
    CALL_OFF = "call_off"
    """Tell all agents that what they were never told to do is off."""
    RELEASE = "release"
    """End the commands of parts that are free, gone or back."""
    SCORE = "score"
    """Count in the job's score how it left."""
    TELL_CANCELLED = "tell_cancelled"
    TELL_ENDED = "tell_ended"
    TAKE_REASON = "take_reason"
    """What cannot wait takes the place of a reason that can."""
    REMEMBER = "remember"
    """While a cancel is open: if it is accepted, another session begins."""
    REOPEN = "reopen"
    """Open the session that was asked for while the cancel was open."""
    NOTE = "note"
    """Say it among the blockers."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The state after an event, and what is done; ``ignored`` says why nothing is."""

    state: SessionState
    effects: tuple[Effect, ...] = ()
    ignored: str = ""


ENDED: Final = (SessionState.FREED, SessionState.FAILED, SessionState.CANCELLED)
BEFORE_COMMITMENT: Final = (
    SessionState.WARNED,
    SessionState.CHECKPOINTING,
    SessionState.WAITING,
)
COMMITTED: Final = (SessionState.TERMINATING, SessionState.VERIFYING)
BEGUN: Final = (*BEFORE_COMMITMENT, *COMMITTED)

SAID: Final[Mapping[SessionState, SessionEvent]] = {
    SessionState.WARNED: SessionEvent.SAID_WARNED,
    SessionState.CHECKPOINTING: SessionEvent.SAID_CHECKPOINTING,
    SessionState.WAITING: SessionEvent.SAID_WAITING,
    SessionState.TERMINATING: SessionEvent.SAID_TERMINATING,
    SessionState.VERIFYING: SessionEvent.SAID_VERIFYING,
}
"""The event by which a session comes to a state, in order of the states."""

_NOT_BEGUN = "nothing was commanded yet"
_HAS_BEGUN = "it has begun already"
_HAS_ENDED = "it has ended"
_REPETITION = "a session does not go back: this is a repetition"
_NOT_ASKED = "nothing was begun that could be cancelled"
_CONTRADICTION = "it is committed to terminating: who says otherwise contradicts itself"
_NO_DEADLINE = "it has no deadline before it begins"
_IS_LEAVING = "it is leaving, and cannot be cancelled any more"
_NEXT_ONE = "the next session answers this"

_Row = dict[SessionState, Answer]


def _goes(states: Iterable[SessionState], to: SessionState, *effects: Effect) -> _Row:
    return {state: Answer(to, effects) for state in states}


def _stays(states: Iterable[SessionState], *effects: Effect) -> _Row:
    return {state: Answer(state, effects) for state in states}


def _ignored(states: Iterable[SessionState], why: str) -> _Row:
    return {state: Answer(state, ignored=why) for state in states}


def _said(to: SessionState) -> _Row:
    reached = BEGUN.index(to)
    return {
        **_ignored([SessionState.PENDING], _NOT_BEGUN),
        **_goes(BEGUN[:reached], to),
        **_ignored(BEGUN[reached:], _REPETITION),
        **_ignored(ENDED, _HAS_ENDED),
    }


_PENDING = (SessionState.PENDING,)
_ROWS: Final[Mapping[SessionEvent, _Row]] = {
    SessionEvent.COMMANDED: {
        **_goes(_PENDING, SessionState.WARNED, Effect.COMMAND, Effect.COUNT, Effect.WARN),
        **_ignored(BEGUN, _HAS_BEGUN),
        **_ignored(ENDED, _HAS_ENDED),
    },
    **{event: _said(state) for state, event in SAID.items()},
    SessionEvent.FREED: {
        **_goes(_PENDING, SessionState.FREED),
        **_goes(BEGUN, SessionState.FREED, Effect.SCORE, Effect.TELL_ENDED, Effect.RELEASE),
        **_stays(ENDED, Effect.RELEASE),
    },
    SessionEvent.SAID_FAILED: {
        **_ignored(_PENDING, _NOT_BEGUN),
        # The commands of parts that are not free stay: an agent that comes back late obeys them.
        **_goes(BEGUN, SessionState.FAILED, Effect.SCORE, Effect.TELL_ENDED, Effect.RELEASE),
        **_ignored(ENDED, _HAS_ENDED),
    },
    SessionEvent.WITHDRAWN: {
        # Placement waits to hear of it from the agents, so they have to be told of it.
        **_goes(_PENDING, SessionState.CANCELLED, Effect.CALL_OFF),
        **_stays(BEFORE_COMMITMENT, Effect.ASK),
        **_stays(COMMITTED, Effect.REFUSE),
        **_ignored(ENDED, _HAS_ENDED),
    },
    SessionEvent.ASKED_AGAIN: {
        **_stays(_PENDING, Effect.TAKE_REASON),
        **_stays(BEFORE_COMMITMENT, Effect.REMEMBER),
        **_ignored(COMMITTED, _IS_LEAVING),
        **_ignored(ENDED, _NEXT_ONE),
    },
    SessionEvent.CANCEL_ACCEPTED: {
        **_ignored(_PENDING, _NOT_ASKED),
        **_goes(
            BEFORE_COMMITMENT,
            SessionState.CANCELLED,
            *(Effect.RELEASE, Effect.SCORE, Effect.TELL_CANCELLED, Effect.REOPEN),
        ),
        **_ignored(COMMITTED, _CONTRADICTION),
        # An agent that had not been heard of is back: its command has been answered.
        **_stays(ENDED, Effect.RELEASE),
    },
    SessionEvent.CANCEL_REJECTED: {
        **_ignored(_PENDING, _NOT_ASKED),
        **_stays(BEFORE_COMMITMENT, Effect.RESUME),
        **_stays(COMMITTED, Effect.NOTE),
        **_ignored(ENDED, _HAS_ENDED),
    },
    SessionEvent.GANG_HOLDS: {
        **_ignored(_PENDING, _NOT_ASKED),
        **_goes(
            BEFORE_COMMITMENT,
            SessionState.CANCELLED,
            *(Effect.CONFIRM, Effect.SCORE, Effect.TELL_CANCELLED, Effect.REOPEN),
        ),
        **_ignored(COMMITTED, _CONTRADICTION),
        **_ignored(ENDED, _HAS_ENDED),
    },
    SessionEvent.DEADLINE_PASSED: {
        **_ignored(_PENDING, _NO_DEADLINE),
        **_goes(
            BEGUN,
            SessionState.FAILED,
            *(Effect.RESUME, Effect.SCORE, Effect.TELL_ENDED, Effect.RELEASE),
        ),
        **_ignored(ENDED, _HAS_ENDED),
    },
    SessionEvent.NODE_LOST: {
        **_stays((*_PENDING, *BEGUN), Effect.NOTE),
        **_ignored(ENDED, _HAS_ENDED),
    },
    SessionEvent.NODE_BACK: {
        **_stays((*_PENDING, *BEGUN), Effect.NOTE),
        **_ignored(ENDED, _HAS_ENDED),
    },
    SessionEvent.LEASE_GONE: {
        **_goes(_PENDING, SessionState.FREED),
        # Not scored: how it left is not known.
        **_goes(BEGUN, SessionState.FREED, Effect.TELL_ENDED, Effect.RELEASE),
        **_stays(ENDED, Effect.RELEASE),
    },
}

TABLE: Final[Mapping[tuple[SessionState, SessionEvent], Answer]] = {
    (state, event): _ROWS[event][state] for event in SessionEvent for state in SessionState
}
"""The answer to every event in every state."""


def is_ended(state: SessionState) -> bool:
    """Whether a session in this state has ended."""
    return state in ENDED
