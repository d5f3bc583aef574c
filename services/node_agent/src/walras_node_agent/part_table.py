"""The life of one part of a lease on its node as a table: every pair has one answer.

The simulated fleet runs its leases on it in market time, the agent its processes on a monotonic
clock. What the effects carry is filled in by :mod:`walras_node_agent.parts`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class PartState(StrEnum):
    """Where a part stands."""

    ACCEPTED = "accepted"
    """Its devices are set aside; it starts when all parts of its lease are accepted."""
    STARTING = "starting"
    RUNNING = "running"
    WARNED = "warned"
    """It was told to leave and has not answered."""
    CHECKPOINTING = "checkpointing"
    """It answered, and saves."""
    WAITING = "waiting"
    """All is saved, or nothing needs to be: it may end by itself."""
    CANCELLING = "cancelling"
    """It holds still until all parts of its gang do."""
    TERMINATING = "terminating"
    """SIGTERM was sent to all that is left of it."""
    KILLING = "killing"
    """SIGKILL was."""
    VERIFYING = "verifying"
    """Nothing of it runs; its devices are read until two reads in a row say free."""
    STUCK = "stuck"
    """Its devices were not seen to be free in time."""
    FREED = "freed"
    REFUSED = "refused"
    """Its devices were not free when it came: it never held them."""


class PartEvent(StrEnum):
    """What happens to a part."""

    MAY_START = "may_start"
    STARTED = "started"
    START_FAILED = "start_failed"
    EXITED = "exited"
    """The process that was started ended; others that it left behind run on."""
    GROUP_GONE = "group_gone"
    """It ended, and so did all that it left behind."""
    DRAIN = "drain"
    """A drain that it has not heard of yet."""
    DRAIN_UNSAVED = "drain_unsaved"
    """The same for a job that has nothing to save."""
    DRAIN_AGAIN = "drain_again"
    """The drain that it is in, or was."""
    CANCEL = "cancel"
    CANCEL_GANG = "cancel_gang"
    """The same for a part of a gang."""
    CONFIRM = "confirm"
    RESUME = "resume"
    RESUME_SAVED = "resume_saved"
    """The same where all is saved, or nothing needs to be."""
    HOOK_ACCEPTED = "hook_accepted"
    """The job says that it saves."""
    SAVED = "saved"
    """The job says that all is saved."""
    WARNING_OVER = "warning_over"
    TERMINATE_OVER = "terminate_over"
    VERIFY_OVER = "verify_over"
    DEVICE_HELD = "device_held"
    DEVICE_FREE = "device_free"
    """A first read says so."""
    DEVICE_FREE_AGAIN = "device_free_again"
    """The next read says so, too."""
    LEASE_ENDED = "lease_ended"
    """Its record in the log is gone."""
    SESSION_ENDED = "session_ended"
    """The record of its drain is gone."""
    FOUND = "found"
    """The agent came back, and what it had started is there."""
    LOST = "lost"
    """The agent came back, and nothing of it is."""
    PROGRESS_DUE = "progress_due"


class Effect(StrEnum):
    """What is done about it, in the order of the answer."""

    START = "start"
    WARN = "warn"
    """Write the warning file, and warn as the job declared."""
    CALL_OFF = "call_off"
    """Write the cancel file."""
    TERMINATE = "terminate"
    """SIGTERM to all that is left of it."""
    KILL = "kill"
    """SIGKILL."""
    READ_DEVICES = "read_devices"
    TELL_LEASE = "tell_lease"
    """Report where its lease stands."""
    TELL_DRAIN = "tell_drain"
    """Report where its drain stands; without a drain, nothing."""
    TELL_HOLDING = "tell_holding"
    """Report that it holds still, although it was not being drained."""
    TELL_CANCELLED = "tell_cancelled"
    """Report the drain as cancelled."""
    TELL_REJECTED = "tell_rejected"
    """Report that the cancel came too late."""
    END_OLDER = "end_older"
    """Report the drain that another one takes the place of as cancelled."""
    KEEP = "keep"
    """Keep it in mind until the part has started, or has failed to."""
    FORGET = "forget"


@dataclass(frozen=True, slots=True)
class Answer:
    """The state after an event, None where the part is forgotten, and what is done about it.

    ``because``: why nothing is done, empty where something is.
    """

    state: PartState | None
    effects: tuple[Effect, ...] = ()
    because: str = ""

    def __str__(self) -> str:
        """Return the answer as one cell of the grid."""
        state = "forgotten" if self.state is None else self.state.value
        words = ", ".join(effect.value for effect in self.effects)
        return f"{state}: {words or self.because or 'nothing to do'}"


_S = PartState
_E = PartEvent
_F = Effect
_ONLY_RESUME: Final = "only `resume` goes on with it"
_Row = dict[PartEvent, Answer]

_BEFORE: Final = (_S.ACCEPTED, _S.STARTING)
_LEAVING: Final = (_S.WARNED, _S.CHECKPOINTING, _S.WAITING)
_ENDING: Final = (_S.TERMINATING, _S.KILLING, _S.VERIFYING, _S.STUCK)
_OVER: Final = (_S.FREED, _S.REFUSED)
_COMMANDS: Final = (
    *(_E.DRAIN, _E.DRAIN_UNSAVED, _E.DRAIN_AGAIN, _E.CANCEL, _E.CANCEL_GANG, _E.CONFIRM),
    *(_E.RESUME, _E.RESUME_SAVED),
)


def _ignored(state: PartState) -> _Row:
    """Answer everything with a reason to do nothing; rows are written over it."""
    why = {
        _E.MAY_START: "it was started, or will not be",
        _E.STARTED: "only what is being started starts",
        _E.START_FAILED: "only what is being started fails to start",
        _E.EXITED: "nothing of it runs",
        _E.GROUP_GONE: "nothing of it runs",
        _E.HOOK_ACCEPTED: "it was not asked, or answered already",
        _E.SAVED: "it was not asked, or it is too late",
        _E.WARNING_OVER: "no warning runs",
        _E.TERMINATE_OVER: "it is not being terminated",
        _E.VERIFY_OVER: "nothing is being verified",
        _E.DEVICE_HELD: "nothing is being verified",
        _E.DEVICE_FREE: "nothing is being verified",
        _E.DEVICE_FREE_AGAIN: "nothing is being verified",
        _E.LEASE_ENDED: "it is on its way out",
        _E.SESSION_ENDED: "what was begun is finished",
        _E.FOUND: "as it should be",
        _E.LOST: "nothing of it ran",
        _E.PROGRESS_DUE: "it is not being drained",
    }
    return {event: Answer(state, because=why.get(event, "")) for event in PartEvent}


def _before() -> dict[PartState, _Row]:
    accepted, starting = (_ignored(state) for state in _BEFORE)
    leave = Answer(_S.VERIFYING, (_F.READ_DEVICES, _F.TELL_DRAIN))
    stays = Answer(_S.ACCEPTED, (_F.TELL_CANCELLED,))
    accepted |= {
        _E.MAY_START: Answer(_S.STARTING, (_F.START,)),
        _E.DRAIN: leave,
        _E.DRAIN_UNSAVED: leave,
        _E.DRAIN_AGAIN: Answer(_S.ACCEPTED, because=_ONLY_RESUME),
        _E.CANCEL: stays,
        _E.CANCEL_GANG: Answer(_S.ACCEPTED, (_F.TELL_HOLDING,)),
        _E.CONFIRM: stays,
        _E.RESUME: leave,
        _E.RESUME_SAVED: leave,
        _E.LEASE_ENDED: Answer(_S.VERIFYING, (_F.READ_DEVICES,)),
    }
    starting |= {
        _E.STARTED: Answer(_S.RUNNING, (_F.TELL_LEASE,)),
        _E.START_FAILED: Answer(_S.VERIFYING, (_F.READ_DEVICES,)),
        _E.LEASE_ENDED: Answer(_S.STARTING, (_F.KEEP,)),
        _E.FOUND: Answer(_S.RUNNING, (_F.TELL_LEASE,)),
        _E.LOST: Answer(_S.VERIFYING, (_F.READ_DEVICES,)),
        **dict.fromkeys(_COMMANDS, Answer(_S.STARTING, (_F.KEEP,))),
    }
    return {_S.ACCEPTED: accepted, _S.STARTING: starting}


def _running() -> _Row:
    told = Answer(_S.RUNNING, (_F.TELL_CANCELLED,))
    return _ignored(_S.RUNNING) | {
        _E.EXITED: Answer(_S.TERMINATING, (_F.TERMINATE,)),
        _E.GROUP_GONE: Answer(_S.VERIFYING, (_F.READ_DEVICES,)),
        _E.DRAIN: Answer(_S.WARNED, (_F.WARN, _F.TELL_DRAIN)),
        _E.DRAIN_UNSAVED: Answer(_S.WAITING, (_F.WARN, _F.TELL_DRAIN)),
        _E.DRAIN_AGAIN: Answer(_S.RUNNING, because=_ONLY_RESUME),
        _E.CANCEL: told,
        _E.CANCEL_GANG: Answer(_S.CANCELLING, (_F.TELL_DRAIN,)),
        _E.CONFIRM: told,
        _E.RESUME: told,
        _E.RESUME_SAVED: told,
        _E.SAVED: Answer(_S.RUNNING),
        _E.LEASE_ENDED: Answer(_S.TERMINATING, (_F.TERMINATE,)),
        _E.LOST: Answer(_S.VERIFYING, (_F.READ_DEVICES,)),
    }


def _leaving(state: PartState) -> _Row:
    """Return the row of a part that was told to leave and may still be called back."""
    again = Answer(state, (_F.TELL_DRAIN,))
    back = Answer(_S.RUNNING, (_F.CALL_OFF, _F.TELL_CANCELLED))
    terminate = Answer(_S.TERMINATING, (_F.TERMINATE, _F.TELL_DRAIN))
    verify = Answer(_S.VERIFYING, (_F.READ_DEVICES, _F.TELL_DRAIN))
    row = _ignored(state) | {
        _E.EXITED: terminate,
        _E.GROUP_GONE: verify,
        _E.DRAIN: Answer(_S.WARNED, (_F.END_OLDER, _F.WARN, _F.TELL_DRAIN)),
        _E.DRAIN_UNSAVED: Answer(_S.WAITING, (_F.END_OLDER, _F.WARN, _F.TELL_DRAIN)),
        _E.DRAIN_AGAIN: again,
        _E.CANCEL: back,
        _E.CANCEL_GANG: Answer(_S.CANCELLING, (_F.TELL_DRAIN,)),
        _E.CONFIRM: back,
        _E.RESUME: again,
        _E.RESUME_SAVED: again,
        _E.WARNING_OVER: terminate,
        _E.LEASE_ENDED: terminate,
        _E.LOST: verify,
        _E.PROGRESS_DUE: again,
    }
    if state is _S.WARNED:
        row[_E.HOOK_ACCEPTED] = Answer(_S.CHECKPOINTING, (_F.TELL_DRAIN,))
        row[_E.FOUND] = Answer(state, (_F.WARN,))
    if state is _S.WAITING:
        row[_E.SAVED] = Answer(state)
    else:
        row[_E.SAVED] = Answer(_S.WAITING, (_F.TELL_DRAIN,))
    return row


def _cancelling() -> _Row:
    """Return the row of a part that neither goes on nor is ended until its gang agrees."""
    return _leaving(_S.CANCELLING) | {
        _E.DRAIN_AGAIN: Answer(_S.CANCELLING, because=_ONLY_RESUME),
        _E.RESUME: Answer(_S.WARNED, (_F.WARN, _F.TELL_DRAIN)),
        _E.RESUME_SAVED: Answer(_S.WAITING, (_F.WARN, _F.TELL_DRAIN)),
        _E.SAVED: Answer(_S.CANCELLING),
        _E.WARNING_OVER: Answer(_S.CANCELLING, because=_ONLY_RESUME),
        # What was accepted must never be followed by a kill, and this may have been.
        _E.SESSION_ENDED: Answer(_S.RUNNING, (_F.CALL_OFF,)),
    }


def _ending(state: PartState) -> _Row:
    """Return the row of a part that cannot be called back any more."""
    told = Answer(state, (_F.TELL_DRAIN,))
    late = Answer(state, (_F.TELL_REJECTED,))
    return _ignored(state) | {
        **dict.fromkeys((_E.DRAIN, _E.DRAIN_UNSAVED, _E.DRAIN_AGAIN), told),
        **dict.fromkeys((_E.CANCEL, _E.CANCEL_GANG, _E.CONFIRM), late),
        **dict.fromkeys((_E.RESUME, _E.RESUME_SAVED), told),
        _E.PROGRESS_DUE: told,
    }


def _ended() -> dict[PartState, _Row]:
    terminating, killing, verifying, stuck = (_ending(state) for state in _ENDING)
    verify = Answer(_S.VERIFYING, (_F.READ_DEVICES, _F.TELL_DRAIN))
    give_up = Answer(_S.STUCK, (_F.TELL_LEASE, _F.TELL_DRAIN))
    terminating |= {
        _E.EXITED: Answer(_S.TERMINATING),
        _E.GROUP_GONE: verify,
        _E.TERMINATE_OVER: Answer(_S.KILLING, (_F.KILL, _F.TELL_DRAIN)),
        _E.FOUND: Answer(_S.TERMINATING, (_F.TERMINATE,)),
        _E.LOST: verify,
    }
    killing |= {
        _E.EXITED: Answer(_S.KILLING),
        _E.GROUP_GONE: verify,
        _E.VERIFY_OVER: give_up,
        _E.FOUND: Answer(_S.KILLING, (_F.KILL,)),
        _E.LOST: verify,
    }
    verifying |= {
        _E.DEVICE_HELD: Answer(_S.VERIFYING, (_F.READ_DEVICES,)),
        _E.DEVICE_FREE: Answer(_S.VERIFYING, (_F.READ_DEVICES,)),
        _E.DEVICE_FREE_AGAIN: Answer(_S.FREED, (_F.TELL_LEASE, _F.TELL_DRAIN)),
        _E.VERIFY_OVER: give_up,
        _E.FOUND: Answer(_S.KILLING, (_F.KILL,)),
    }
    told = Answer(_S.STUCK, (_F.TELL_DRAIN,))
    again = Answer(_S.KILLING, (_F.KILL, _F.TELL_DRAIN))
    stuck |= {
        _E.EXITED: Answer(_S.STUCK),
        _E.GROUP_GONE: Answer(_S.STUCK, (_F.READ_DEVICES,)),
        _E.DRAIN: again,
        _E.DRAIN_UNSAVED: again,
        **dict.fromkeys((_E.CANCEL, _E.CANCEL_GANG, _E.CONFIRM), told),
        _E.DEVICE_HELD: Answer(_S.STUCK, (_F.READ_DEVICES,)),
        _E.DEVICE_FREE: Answer(_S.STUCK, (_F.READ_DEVICES,)),
        _E.DEVICE_FREE_AGAIN: Answer(_S.FREED, (_F.TELL_LEASE,)),
        _E.FOUND: Answer(_S.STUCK, (_F.KILL,)),
        _E.LOST: Answer(_S.STUCK, (_F.READ_DEVICES,)),
        _E.PROGRESS_DUE: Answer(_S.STUCK, because="its drain has failed"),
    }
    rows = (terminating, killing, verifying, stuck)
    return dict(zip(_ENDING, rows, strict=True))


def _over(state: PartState) -> _Row:
    told = Answer(state, (_F.TELL_DRAIN,))
    return _ignored(state) | {
        **dict.fromkeys(_COMMANDS, told),
        _E.LEASE_ENDED: Answer(None, (_F.FORGET,)),
        _E.FOUND: Answer(state, (_F.KILL,)),
    }


TABLE: Final[Mapping[PartState, Mapping[PartEvent, Answer]]] = {
    **_before(),
    _S.RUNNING: _running(),
    **{state: _leaving(state) for state in _LEAVING},
    _S.CANCELLING: _cancelling(),
    **_ended(),
    **{state: _over(state) for state in _OVER},
}
"""Every state, every event, one answer."""


def grid() -> str:
    """Return the whole table as text, one pair a line."""
    return "".join(
        f"{state:13} {event:17} -> {answer}\n"
        for state, row in TABLE.items()
        for event, answer in row.items()
    )
