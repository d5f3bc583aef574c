"""What an event says of a part, whichever state follows."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from walras_contracts.work import LeaseOutcome
from walras_node_agent.part_life import COMMITTED, Happened, Life, Rules
from walras_node_agent.part_table import PartEvent, PartState

_AFTER_SIGTERM: Final = frozenset({PartState.TERMINATING, PartState.KILLING})

_CANCELS: Final = frozenset({PartEvent.CANCEL, PartEvent.CANCEL_GANG, PartEvent.CONFIRM})


def as_counted(life: Life, happened: Happened) -> Happened | None:
    """Return an event as it counts; None for what speaks of a drain that is over.

    The second read in a row that says free is the one that counts, and none does while anything of
    the part runs.
    """
    event = happened.event
    if event is PartEvent.DEVICE_FREE:
        if not life.group_gone:
            return replace(happened, event=PartEvent.DEVICE_HELD)
        return replace(happened, event=PartEvent.DEVICE_FREE_AGAIN) if life.free_reads else happened
    if event in {PartEvent.SAVED, PartEvent.HOOK_ACCEPTED}:
        # A job that was called back may have saved already, and be on its way out.
        asked = life.draining or (event is PartEvent.SAVED and life.cancelled_ms is not None)
        return happened if asked and life.knows(happened.session) else None
    if event in _CANCELS and life.state in COMMITTED and life.cancelled_ms is not None:
        # It was cancelled, and that was told, before the part ended in another way.
        return None if life.knows(happened.session) else happened
    return happened


def noted(life: Life, happened: Happened, now_ms: int, rules: Rules) -> Life:
    """Return a part with what an event says of it; its state and what runs out stay."""
    note = _NOTES.get(happened.event)
    return life if note is None else note(life, happened, now_ms, rules)


def _drained(life: Life, happened: Happened, now_ms: int, _: Rules) -> Life:
    """Take a drain that the part has not heard of; ``resume`` may be the first it hears."""
    if life.state is PartState.STARTING:
        return replace(life, kept=happened)
    if life.knows(happened.session):
        # What was cancelled stays so; what only held still, without a drain, is in one now.
        held = not life.draining and life.cancelled_ms is None
        begins = happened.event is not PartEvent.DRAIN_AGAIN
        return replace(life, warned_ms=now_ms) if held and begins else life
    return replace(
        life,
        drain=happened.timeline,
        warned_ms=now_ms,
        leave_ms=None,
        cancelled_ms=None,
        saved=False,
    )


def _cancelled(life: Life, happened: Happened, now_ms: int, rules: Rules) -> Life:
    if life.state is PartState.STARTING or life.state in COMMITTED:
        return _drained(life, happened, now_ms, rules)
    return _called_back(_heard(life, happened), now_ms)


def _held(life: Life, happened: Happened, now_ms: int, rules: Rules) -> Life:
    if life.state is PartState.STARTING or life.state in COMMITTED:
        return _drained(life, happened, now_ms, rules)
    return _heard(life, happened)


def _heard(life: Life, happened: Happened) -> Life:
    """Take note of a drain that begins with its cancel."""
    if life.knows(happened.session):
        return life
    return replace(life, drain=happened.timeline, cancelled_ms=None, saved=False)


def _called_back(life: Life, now_ms: int) -> Life:
    return replace(life, warned_ms=None, leave_ms=None, cancelled_ms=now_ms)


def _session_ended(life: Life, _: Happened, now_ms: int, __: Rules) -> Life:
    return _called_back(life, now_ms) if life.state is PartState.CANCELLING else _unkept(life)


def _unkept(life: Life) -> Life:
    return life if life.kept is None else replace(life, kept=None)


def _not_started(life: Life, happened: Happened, _: int, __: Rules) -> Life:
    return replace(life, outcome=LeaseOutcome.START_FAILED, detail=happened.detail, group_gone=True)


def _without_process(life: Life, happened: Happened, now_ms: int, rules: Rules) -> Life:
    if life.state is PartState.ACCEPTED:
        return life
    gone = life.group_gone or happened.event is not PartEvent.EXITED
    if life.outcome is not LeaseOutcome.NONE:
        return replace(life, group_gone=gone)
    return replace(
        life,
        group_gone=gone,
        outcome=happened.outcome or _outcome(life, happened, now_ms, rules),
        exit_code=happened.exit_code,
        detail=happened.detail,
    )


def _outcome(life: Life, happened: Happened, now_ms: int, rules: Rules) -> LeaseOutcome:
    """Return how a part came to its end, by its exit code and what it was asked for.

    A job that ends with 0 while it is asked to leave has left if it said that all is saved, and is
    finished if it did not; after SIGTERM it has left. One that saved and was called back may be on
    its way out: it has as long as it has after SIGTERM.
    """
    if life.state in _AFTER_SIGTERM:
        return LeaseOutcome.VACATED
    if life.draining:
        done = happened.exit_code == 0 and not life.saved
        return LeaseOutcome.FINISHED if done else LeaseOutcome.VACATED
    if happened.exit_code is None:
        return LeaseOutcome.LOST
    called_back_ms = life.cancelled_ms
    if life.saved and called_back_ms is not None and now_ms <= called_back_ms + rules.terminate_ms:
        return LeaseOutcome.VACATED
    return LeaseOutcome.FINISHED if happened.exit_code == 0 else LeaseOutcome.FAILED


def _found(life: Life, _: Happened, __: int, ___: Rules) -> Life:
    return replace(life, group_gone=False, free_reads=0) if life.group_gone else life


def _saved(life: Life, _: Happened, __: int, ___: Rules) -> Life:
    return replace(life, saved=True)


def _read_held(life: Life, _: Happened, __: int, ___: Rules) -> Life:
    return replace(life, free_reads=0) if life.free_reads else life


def _read_free(life: Life, _: Happened, __: int, ___: Rules) -> Life:
    return replace(life, free_reads=life.free_reads + 1)


def _ended(life: Life, _: Happened, __: int, ___: Rules) -> Life:
    return replace(life, ended=True)


_NOTES: Final[Mapping[PartEvent, Callable[[Life, Happened, int, Rules], Life]]] = {
    PartEvent.START_FAILED: _not_started,
    PartEvent.EXITED: _without_process,
    PartEvent.GROUP_GONE: _without_process,
    PartEvent.LOST: _without_process,
    PartEvent.DRAIN: _drained,
    PartEvent.DRAIN_UNSAVED: _drained,
    PartEvent.DRAIN_AGAIN: _drained,
    PartEvent.RESUME: _drained,
    PartEvent.RESUME_SAVED: _drained,
    PartEvent.CANCEL: _cancelled,
    PartEvent.CONFIRM: _cancelled,
    PartEvent.CANCEL_GANG: _held,
    PartEvent.SAVED: _saved,
    PartEvent.DEVICE_HELD: _read_held,
    PartEvent.DEVICE_FREE: _read_free,
    PartEvent.LEASE_ENDED: _ended,
    PartEvent.SESSION_ENDED: _session_ended,
    PartEvent.FOUND: _found,
}
